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

    public init(kind: TargetKind, text: String) {
        switch kind {
        case .token: self = .token(text)
        case .topic: self = .topic(text)
        case .condition: self = .condition(text)
        }
    }

    public var kind: TargetKind {
        switch self {
        case .token: .token
        case .topic: .topic
        case .condition: .condition
        }
    }

    /// The token, name or condition.
    public var text: String {
        switch self {
        case .token(let text), .topic(let text), .condition(let text): text
        }
    }
}

/// A message with its target and how it is to be sent.
public struct OutgoingMessage: Sendable, Hashable {
    public var target: MessageTarget
    public var message: Message
    /// TTL-1: seconds the message is of interest; nil is the longest, 28 days.
    public var timeToLiveSeconds: UInt32?
    /// nil is the default, `normal`.
    public var priority: MessagePriority?
    /// MSG-7: check everything and send nothing.
    public var validateOnly: Bool

    public init(
        to target: MessageTarget, _ message: Message, timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority? = nil, validateOnly: Bool = false
    ) {
        self.target = target
        self.message = message
        self.timeToLiveSeconds = timeToLiveSeconds
        self.priority = priority
        self.validateOnly = validateOnly
    }
}
