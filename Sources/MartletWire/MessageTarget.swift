// SPDX-License-Identifier: Apache-2.0
//
// A request to send a message, independent of any wire. The embedding interface and the client library share the
// types. Rests on `Message`.

public import MartletBase

/// MSG-1: the target of a message.
public enum MessageTarget: Sendable, Hashable {
    /// The instance with a registration token.
    case token(String)
    /// All subscribers of a topic. The name may begin with `/topics/`.
    case topic(String)
    /// All instances that satisfy a condition, such as `'a' in topics && !('b' in topics)`.
    case condition(String)
    /// GRP-5: the members of a group, by the group's notification key.
    case group(String)
    /// The union of several targets; each instance gets the message once. The list must not contain `several`.
    case several([MessageTarget])

    /// Makes a target from a kind and a text; nil for `several`, because a single text cannot express a list.
    public init?(kind: TargetKind, text: String) {
        switch kind {
        case .token: self = .token(text)
        case .topic: self = .topic(text)
        case .condition: self = .condition(text)
        case .group: self = .group(text)
        case .several: return nil
        }
    }

    /// Kind of the target.
    public var kind: TargetKind {
        switch self {
        case .token: .token
        case .topic: .topic
        case .condition: .condition
        case .group: .group
        case .several: .several
        }
    }

    /// The token, name, condition or key; for `several`, the texts of all targets with `, ` between them.
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

/// A message with a target and sending options.
public struct OutgoingMessage: Sendable, Hashable {
    /// MSG-1: receivers of the message.
    public var target: MessageTarget
    /// Content of the message, with the platforms' blocks.
    public var message: Message
    /// TTL-1: time to live in seconds, counted from the acceptance or from `sendAt`. 0 is now or never, nil is the
    /// longest, 28 days. A platform's block can override the value.
    public var timeToLiveSeconds: UInt32?
    /// Priority; nil is the default, `normal`. A platform's block can override the value.
    public var priority: MessagePriority?
    /// COL-1: the message replaces a stored message with an equal key. A platform's block can override the value.
    /// Notifications replace one another without a key (COL-2).
    public var collapseKey: String?
    /// MSG-8: only instances of this app get the message. The block for Android can override the value.
    public var restrictedPackageName: String?
    /// The options that the message has for all its recipients.
    public var options: MessageOptions
    /// RCP-1: true if the broker keeps receipts for the project's senders.
    public var wantsReceipts: Bool {
        get { options.wantsReceipts }
        set { options.wantsReceipts = newValue }
    }
    /// MSG-9: a second send with an equal key within 24 hours sends no second message and returns the first answer.
    /// At most 128 bytes.
    public var idempotencyKey: String?
    /// MSG-10: earliest instant of sending, at most 28 days ahead; nil is at once.
    public var sendAt: Instant?
    /// REP-2: ID of an earlier message, in the form of `SendReceipt`, or only the number. The new message is
    /// limited to instances that the earlier message was for and that have not got the earlier message, for
    /// whatever reason.
    public var notReceived: String?
    /// MSG-7: true for a request that the broker checks completely without sending the message.
    public var validateOnly: Bool

    /// The defaults are a message that is sent at once, lives 28 days and has normal priority, without a collapse key
    /// and without receipts.
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
        options = MessageOptions(wantsReceipts: wantsReceipts)
        self.idempotencyKey = idempotencyKey
        self.sendAt = sendAt
        self.notReceived = notReceived
        self.validateOnly = validateOnly
    }

    /// The number of the earlier message, if any.
    /// - Throws: `INVALID_ARGUMENT` if `notReceived` is not a message ID of the project.
    package func notReceivedNumber(projectID: String) throws(MartletError) -> UInt64? {
        guard let notReceived else { return nil }
        return try MessageID.number(notReceived, projectID: projectID, field: "not_received")
    }

    /// Makes the request for an encoded message. The bytes may differ from the encoding of `self.message`.
    /// - Throws: `INVALID_ARGUMENT` if `notReceived` is not a message ID of the project.
    package func request(
        correlation: UInt32 = 0, message: [UInt8], projectID: String
    ) throws(MartletError) -> SendRequest {
        let earlier = try notReceivedNumber(projectID: projectID)
        return SendRequest(
            correlation: correlation, target: target, message: message,
            timeToLiveSeconds: timeToLiveSeconds, priority: priority,
            collapseKey: collapseKey ?? "", restrictedPackageName: restrictedPackageName ?? "",
            idempotencyKey: idempotencyKey ?? "", sendAt: sendAt, notReceived: earlier,
            options: options, validateOnly: validateOnly)
    }
}

/// MSG-6: a message ID has the form `projects/PROJECT/messages/NUMBER`.
public enum MessageID {
    /// The message ID of a message number.
    public static func text(_ number: UInt64, projectID: String) -> String {
        "projects/\(projectID)/messages/\(number)"
    }

    /// The number in a message ID of the project. A text that is only the number is accepted too.
    /// - Parameter field: name of the request's field, for the error.
    /// - Throws: `INVALID_ARGUMENT` if the text is neither an ID nor a number.
    public static func number(
        _ text: String, projectID: String, field: String = "message_id"
    ) throws(MartletError) -> UInt64 {
        let prefix = "projects/\(projectID)/messages/"
        let digits = text.hasPrefix(prefix) ? text.dropFirst(prefix.count) : text[...]
        guard digits.first?.isNumber == true, let number = UInt64(digits), number > 0,
            number & WireVersion.nowOrNeverBit == 0
        else {
            throw MartletError(
                .invalidArgument,
                "This is not the ID of a message of \(projectID); write \(prefix)NUMBER.",
                field: field)
        }
        return number
    }
}
