// SPDX-License-Identifier: Apache-2.0
//
// The time to live of a message in the form of each platform (TTL-1): a duration for Android, an instant for Apple,
// a number for the web. Also the platforms' forms of priority (PRI-1). Rests on MessageTraits.

extension Lifespan {
    /// Android: seconds with an optional fraction and the suffix `s`, such as `4500s` or `3.5s`; rounded down to
    /// whole seconds. nil for any other text. The broker refuses a time above the project's longest.
    public init?(androidDuration text: some StringProtocol) {
        guard text.hasSuffix("s") else { return nil }
        let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), parts.allSatisfy({ Self.isDigits($0) }) else {
            return nil
        }
        // A protobuf duration has nanosecond precision: at most 9 digits.
        if parts.count == 2, parts[1].utf8.count > 9 { return nil }
        self.init(wholeSeconds: parts[0])
    }

    /// The web's header `TTL`: a number of seconds. nil for any other text. The broker refuses a time above the
    /// project's longest.
    public init?(webTTL text: some StringProtocol) {
        guard Self.isDigits(text) else { return nil }
        self.init(wholeSeconds: text)
    }

    /// Apple's `apns-expiration`: seconds since 1970; 0 means now or never. nil for a negative number and for a
    /// time after the year 9999.
    public init?(unixSeconds seconds: Int64) {
        guard (0...Self.lastUnixSecond).contains(seconds) else { return nil }
        self = seconds == 0 ? .seconds(0) : .until(Instant(millisecondsSince1970: seconds * 1000))
    }

    /// 9999-12-31T23:59:59Z.
    private static let lastUnixSecond: Int64 = 253_402_300_799

    /// - Parameter digits: one digit or more. A number beyond 32 bits becomes the highest, which no project allows.
    private init(wholeSeconds digits: some StringProtocol) {
        self = .seconds(UInt32(digits) ?? .max)
    }

    private static func isDigits(_ text: some StringProtocol) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}

extension MessagePriority {
    /// Apple's `apns-priority`: 5 is normal, 10 is high. nil for any other number.
    public init?(apnsPriority number: Int) {
        switch number {
        case 5: self = .normal
        case 10: self = .high
        default: return nil
        }
    }

    /// The web's header `Urgency`: `very-low`, `low` and `normal` are normal, `high` is high. nil for any other
    /// text.
    public init?(webUrgency text: some StringProtocol) {
        switch text {
        case "very-low", "low", "normal": self = .normal
        case "high": self = .high
        default: return nil
        }
    }
}
