// SPDX-License-Identifier: Apache-2.0
//
// What a push service's answer means for us: the message is done, the subscription is over, it will never be taken, or
// trying again may help. Pure.
// Source: RFC 8030, sections 5 and 7; RFC 9110, sections 5.6.7 and 10.2.3.

/// How an attempt to send to a push service ended.
package enum PushAnswer: Sendable, Hashable {
    /// 2xx: the push service has the message.
    case taken
    /// 404 or 410: the subscription is over for good.
    case gone(status: Int)
    /// 413: the body is too long for this push service.
    case tooLong
    /// Any other status from 300 to 499, or a forbidden address. Trying again won't help.
    case refused(status: Int?, reason: String)
    /// 429, 5xx, or no answer. Try again, after the time that the push service asked for.
    case later(status: Int?, reason: String, seconds: Int?)

    /// Reads an answer.
    /// - Parameters:
    ///   - retryAfter: the header of this name.
    ///   - reason: text for operators.
    ///   - now: seconds since 1970.
    package init(status: Int, retryAfter: String?, reason: String, now: Int64) {
        switch status {
        case 200...299: self = .taken
        case 404, 410: self = .gone(status: status)
        case 413: self = .tooLong
        case 408, 425, 429, 500...599:
            self = .later(
                status: status, reason: reason,
                seconds: retryAfter.flatMap { Self.seconds(until: $0, now: now) })
        default: self = .refused(status: status, reason: reason)
        }
    }

    /// Longest `Retry-After` that we follow, in seconds: a day.
    package static let retryAfterSecondsMax = 86_400

    /// The seconds in a `Retry-After`, which has either seconds or a date; nil for anything else.
    static func seconds(until text: String, now: Int64) -> Int? {
        if let seconds = Int(text), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            return min(seconds, retryAfterSecondsMax)
        }
        guard let date = secondsSince1970(ofDate: text) else { return nil }
        return Int(min(max(0, date - now), Int64(retryAfterSecondsMax)))
    }

    /// A date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    private static func secondsSince1970(ofDate text: String) -> Int64? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = Int64(parts[1]),
            let month = months.firstIndex(of: String(parts[2])), let year = Int64(parts[3]),
            (1970...9999).contains(year), (1...31).contains(day)
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int64($0) }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]),
            (0...60).contains(clock[2])
        else { return nil }
        // Days since 1970. Years begin in March here, so that the leap day is their last.
        let number = Int64(month) + 1
        let shifted = number <= 2 ? year - 1 : year
        let yearDay = (153 * (number + (number > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let days =
            shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + yearDay - 719_468
        return days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
