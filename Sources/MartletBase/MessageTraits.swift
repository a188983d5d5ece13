// SPDX-License-Identifier: Apache-2.0
//
// The traits of a message (target, priority, collapse key), the operations on subscriptions and groups, and the
// states of a device. The wire, the store and the engine share these numbers. Rests on nothing.

/// The kinds of target of a message, numbered as in SEND and DELIVER.
public enum TargetKind: UInt8, Sendable, CaseIterable, Hashable {
    case token = 1
    case topic = 2
    case condition = 3
    case group = 4
    /// A union of targets of the other kinds.
    case several = 5
}

/// The urgency of a message.
public enum MessagePriority: UInt8, Sendable, CaseIterable, Hashable {
    /// The message may wait until the device wakes.
    case normal = 1
    /// The message is delivered at once, even to a dozing device.
    case high = 2
}

/// The operation of a topic management request.
public enum TopicOperation: UInt8, Sendable, CaseIterable, Hashable {
    case subscribe = 1
    case unsubscribe = 2
}

/// The operation of a request that changes a group's members (GRP-2).
public enum GroupOperation: UInt8, Sendable, CaseIterable, Hashable {
    case add = 1
    case remove = 2
}

/// The state that a device reports (PRI-2).
public enum DeviceState: UInt8, Sendable, CaseIterable, Hashable {
    case active = 1
    case background = 2
    /// Messages of normal priority wait until the device leaves doze (PRI-1).
    case doze = 3
}

/// The event that a device reports about a message (RCP-2).
public enum ReceiptKind: UInt8, Sendable, CaseIterable, Hashable {
    case received = 1
    /// The device showed the message to the user: an impression.
    case displayed = 2
    case opened = 3
}

/// The collapse key of a message: in a mailbox, a new message replaces the stored message of equal key (COL-1,
/// COL-2).
public enum CollapseKey: Sendable, Hashable {
    /// Not collapsible: the message neither replaces a stored message nor is replaced.
    case none
    /// The package name of the recipient's app.
    case app
    /// An explicit key.
    case named(String)
    /// MSG-11: an opaque message. The message replaces a stored opaque message of equal topic; nil: the message
    /// replaces no message. Topics are neither counted (COL-3) nor throttled (COL-4).
    case opaque(topic: String?)

    /// Whether the message counts against the collapse keys and the throttle (COL-3, COL-4) and not against the 100 stored
    /// messages (STO-1).
    @inlinable public var isCollapsible: Bool {
        switch self {
        case .none, .opaque: false
        case .app, .named: true
        }
    }
}

/// The messages of one instance that the broker can hold back together. A doze holds back normal priority, the
/// throttle collapsible messages. Within a lane, messages are delivered in the order of their sequences.
public struct Lane: RawRepresentable, Sendable, Hashable {
    /// Bit 0: high priority. Bit 1: collapsible.
    public let rawValue: UInt8
    /// Bits above bit 1 are ignored.
    public init(rawValue: UInt8) { self.rawValue = rawValue & 3 }

    /// The lane of a message with these traits.
    public init(_ priority: MessagePriority, isCollapsible: Bool) {
        rawValue = (priority == .high ? 1 : 0) | (isCollapsible ? 2 : 0)
    }

    /// Whether messages of the lane have high priority, so that a doze does not hold the lane back.
    @inlinable public var isHigh: Bool { rawValue & 1 != 0 }
    /// Whether messages of the lane are collapsible, so that the throttle can hold the lane back (COL-4).
    @inlinable public var isCollapsible: Bool { rawValue & 2 != 0 }
    /// Number of lanes: two priorities, each collapsible and not collapsible.
    public static let count = 4
    /// All lanes, in ascending order of the raw value.
    public static let all = (0..<UInt8(count)).map { Lane(rawValue: $0) }
}

/// One position in the project's order of messages for each lane.
public struct LaneMarks: Sendable, Hashable {
    private var marks: SIMD4<UInt64>

    /// Marks with every lane at the position `all`.
    public init(_ all: MessageSequence) { marks = SIMD4(repeating: all.rawValue) }

    /// The position of one lane.
    public subscript(lane: Lane) -> MessageSequence {
        get { MessageSequence(marks[Int(lane.rawValue)]) }
        set { marks[Int(lane.rawValue)] = newValue.rawValue }
    }

    /// The position of the lane that is furthest behind.
    public var lowest: MessageSequence { MessageSequence(marks.min()) }
    /// The position of the lane that is furthest ahead.
    public var highest: MessageSequence { MessageSequence(marks.max()) }
    /// Whether all lanes have an equal position.
    public var isEven: Bool { marks.min() == marks.max() }

    /// Whether no lane is behind its position in `before`.
    package func isAtLeast(_ before: LaneMarks) -> Bool { all(marks .>= before.marks) }
    /// A copy in which no lane is beyond `sequence`.
    public func limited(to sequence: MessageSequence) -> LaneMarks {
        var limited = self
        limited.marks.replace(
            with: SIMD4(repeating: sequence.rawValue), where: marks .> sequence.rawValue)
        return limited
    }

    /// Raises each lane to the higher of the two positions.
    public mutating func formMaximum(_ other: LaneMarks) {
        marks.replace(with: other.marks, where: other.marks .> marks)
    }
}

/// A set of platforms.
public struct PlatformSet: OptionSet, Sendable, Hashable {
    /// Bit `n - 1` stands for the platform with the number `n`.
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    /// The set of one platform.
    public init(_ platform: Platform) { rawValue = 1 << (platform.rawValue - 1) }

    /// The set of all three platforms.
    public static let all: PlatformSet = [.init(.android), .init(.apple), .init(.web)]

    /// Whether the platform is a member.
    public func contains(_ platform: Platform) -> Bool { contains(PlatformSet(platform)) }
}

/// A message as sent to the instances of some platforms (MSG-5): the platforms' block merged into the common
/// fields.
public struct OutgoingVariant: Sendable, Hashable {
    /// Platforms whose instances get the variant.
    public var platforms: PlatformSet
    /// TTL-1: time to live of the variant.
    public var lifespan: Lifespan
    /// PRI-1: priority of the variant.
    public var priority: MessagePriority
    /// COL-2: collapse key of the variant.
    public var collapse: CollapseKey
    /// MSG-8: only instances of the app with this package name receive the message.
    public var restrictedPackageName: String?
    /// A valid message in wire form, without platform blocks.
    public var body: [UInt8]
    /// MSG-3: sizes of the message, for the project's limit. The sizes are 0 once the broker has accepted the message.
    public var size: MessageSize

    /// The defaults are a message for all platforms that lives as long as the project's messages may, has normal
    /// priority and is not collapsible.
    public init(
        platforms: PlatformSet = .all, lifespan: Lifespan = .longest,
        priority: MessagePriority = .normal, collapse: CollapseKey = .none,
        restrictedPackageName: String? = nil, body: [UInt8], size: MessageSize = MessageSize()
    ) {
        self.platforms = platforms
        self.lifespan = lifespan
        self.priority = priority
        self.collapse = collapse
        self.restrictedPackageName = restrictedPackageName
        self.body = body
        self.size = size
    }

    /// All fields. Every format of bytes takes them apart, so a new field does not compile until each says what it does.
    package var fields:
        (PlatformSet, Lifespan, MessagePriority, CollapseKey, String?, [UInt8], MessageSize)
    { (platforms, lifespan, priority, collapse, restrictedPackageName, body, size) }
}

/// MSG-3: what a project's limit bounds of a message, in bytes.
public struct MessageSize: Sendable, Hashable {
    /// UTF-8 bytes of title, body, image, data keys and data values.
    public var payloadBytes: Int
    /// Bytes of the encoded block that was merged into the message; 0 without a block.
    public var blockBytes: Int

    public init(payloadBytes: Int = 0, blockBytes: Int = 0) {
        self.payloadBytes = payloadBytes
        self.blockBytes = blockBytes
    }
}

/// FAN-1: the treatment of a new fanout when its project has reached the limit of fanouts in progress.
public enum OverloadPolicy: UInt8, Sendable, CaseIterable, Hashable {
    /// The fanout waits until earlier fanouts have ended. If too many wait already, the message is refused.
    case `defer` = 1
    /// The message is refused, with a retry delay.
    case refuse = 2
}
