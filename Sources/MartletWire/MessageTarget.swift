// SPDX-License-Identifier: Apache-2.0
//
// What somebody asks the broker to send, before it has a place on any wire: shared by the embedding
// interface and the client library. Rests on `Message`.

public import MartletBase

/// MSG-1: the one target of a message.
public enum MessageTarget: Sendable, Hashable {
    /// One instance, by its registration token.
    case token(String)
    /// All subscribers of a topic; the name, with or without `/topics/`.
    case topic(String)
    /// All instances that satisfy a condition, such as `'a' in topics && !('b' in topics)`.
    case condition(String)
    /// GRP-5: the members of a group, by its key.
    case group(String)
    /// The instances that any of these means, each once; not several again.
    case several([MessageTarget])

    /// nil for several, which one text does not say.
    public init?(kind: TargetKind, text: String) {
        switch kind {
        case .token: self = .token(text)
        case .topic: self = .topic(text)
        case .condition: self = .condition(text)
        case .group: self = .group(text)
        case .several: return nil
        }
    }

    public var kind: TargetKind {
        switch self {
        case .token: .token
        case .topic: .topic
        case .condition: .condition
        case .group: .group
        case .several: .several
        }
    }

    /// The token, name, condition or key; of several each, with commas between them.
    public var text: String {
        switch self {
        case .token(let text), .topic(let text), .condition(let text), .group(let text): text
        case .several(let targets): targets.map(\.text).joined(separator: ", ")
        }
    }

    init(from reader: inout WireReader) throws(WireError) {
        let kind: TargetKind = try reader.choice("target kind")
        guard let target = MessageTarget(kind: kind, text: try reader.string()) else {
            throw .unknownValue(field: "target kind", value: UInt64(kind.rawValue))
        }
        self = target
    }

    func encode(into writer: inout WireWriter) {
        writer.u8(kind.rawValue)
        writer.string(text)
    }
}

/// A message with its target and how it is to be sent.
public struct OutgoingMessage: Sendable, Hashable {
    public var target: MessageTarget
    public var message: Message
    /// TTL-1: seconds the message is of interest, from its acceptance or `sendAt` on; 0 is now or never,
    /// nil is the longest, 28 days. A platform's block may say otherwise; so for the next three.
    public var timeToLiveSeconds: UInt32?
    /// nil is the default, `normal`.
    public var priority: MessagePriority?
    /// COL-1: the message replaces a stored one with the same key. Notifications replace one another
    /// without (COL-2).
    public var collapseKey: String?
    /// MSG-8: only instances of this app get it.
    public var restrictedPackageName: String?
    /// RCP-1: receipts are kept for the project's senders.
    public var wantsReceipts: Bool
    /// MSG-9: sent again with the same key within 24 hours, it is not sent twice, and the first answer
    /// comes again. At most 128 bytes.
    public var idempotencyKey: String?
    /// MSG-10: not before this instant, at most 28 days ahead; nil is at once.
    public var sendAt: Instant?
    /// REP-2: the ID of an earlier message, as `SendReceipt` has it, or its number alone: of the target's
    /// instances only those that it was for and that have not got it, for whatever reason.
    public var notReceived: String?
    /// MSG-7: check everything and send nothing.
    public var validateOnly: Bool

    public init(
        to target: MessageTarget, _ message: Message, timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority? = nil, collapseKey: String? = nil,
        restrictedPackageName: String? = nil, wantsReceipts: Bool = false,
        idempotencyKey: String? = nil, sendAt: Instant? = nil, notReceived: String? = nil,
        validateOnly: Bool = false
    ) {
        self.target = target
        self.message = message
        self.timeToLiveSeconds = timeToLiveSeconds
        self.priority = priority
        self.collapseKey = collapseKey
        self.restrictedPackageName = restrictedPackageName
        self.wantsReceipts = wantsReceipts
        self.idempotencyKey = idempotencyKey
        self.sendAt = sendAt
        self.notReceived = notReceived
        self.validateOnly = validateOnly
    }

    /// The request for an encoded message, which need not be this one's.
    /// - Throws: `INVALID_ARGUMENT` for a `notReceived` that is no message ID of the project.
    public func request(
        correlation: UInt32, message: [UInt8], projectID: String
    ) throws(MartletError) -> SendRequest {
        var earlier: UInt64?
        if let notReceived {
            earlier = try MessageID.number(
                notReceived, projectID: projectID, field: "not_received")
        }
        return SendRequest(
            correlation: correlation, target: target, message: message,
            timeToLiveSeconds: timeToLiveSeconds, priority: priority,
            collapseKey: collapseKey ?? "", restrictedPackageName: restrictedPackageName ?? "",
            idempotencyKey: idempotencyKey ?? "", sendAt: sendAt, notReceived: earlier,
            wantsReceipts: wantsReceipts, validateOnly: validateOnly)
    }
}

/// MSG-6: `projects/PROJECT/messages/NUMBER`.
public enum MessageID {
    public static func text(_ number: UInt64, projectID: String) -> String {
        "projects/\(projectID)/messages/\(number)"
    }

    /// The number in a message ID of the project, or in a number alone.
    /// - Parameter field: whose text it is.
    public static func number(
        _ text: String, projectID: String, field: String = "message_id"
    ) throws(MartletError) -> UInt64 {
        let prefix = "projects/\(projectID)/messages/"
        let digits = text.hasPrefix(prefix) ? text.dropFirst(prefix.count) : text[...]
        guard digits.first?.isNumber == true, let number = UInt64(digits), number > 0,
            number & WireVersion.notStoredBit == 0
        else {
            throw MartletError(
                .invalidArgument,
                "This is not the ID of a message of \(projectID); write \(prefix)NUMBER.",
                field: field)
        }
        return number
    }
}
