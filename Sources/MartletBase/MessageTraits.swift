// SPDX-License-Identifier: Apache-2.0
//
// What a message was sent to, how urgent it is, what it replaces, which way a subscription or a membership goes, how
// awake a device is: numbers that the wire, the store and the engine share. Rests on nothing.

/// The kinds of target a message can have, as SEND and DELIVER number them.
public enum TargetKind: UInt8, Sendable, CaseIterable, Hashable {
    case token = 1
    case topic = 2
    case condition = 3
    case group = 4
    /// A union of targets of the other kinds.
    case several = 5
}

/// How urgent a message is.
public enum MessagePriority: UInt8, Sendable, CaseIterable, Hashable {
    /// May wait until the device wakes.
    case normal = 1
    /// At once, even to a dozing device.
    case high = 2
}

/// What a change of subscriptions does.
public enum TopicOperation: UInt8, Sendable, CaseIterable, Hashable {
    case subscribe = 1
    case unsubscribe = 2
}

/// What a change of a group's members does (GRP-2).
public enum GroupOperation: UInt8, Sendable, CaseIterable, Hashable {
    case add = 1
    case remove = 2
}

/// How awake a device says it is (PRI-2).
public enum DeviceState: UInt8, Sendable, CaseIterable, Hashable {
    case active = 1
    case background = 2
    /// Messages of normal priority wait until it leaves this state (PRI-1).
    case doze = 3
}

/// What became of a message on the device, as it tells (RCP-2).
public enum ReceiptKind: UInt8, Sendable, CaseIterable, Hashable {
    case received = 1
    /// An impression.
    case displayed = 2
    case opened = 3
}

/// What a message replaces in a mailbox (COL-1, COL-2).
public enum CollapseKey: Sendable, Hashable {
    /// Not collapsible: nothing, and nothing replaces it.
    case none
    /// The package name of the app it arrives at.
    case app
    /// This key.
    case named(String)
}

/// Messages of one instance that can be held back together: by a doze (normal priority), by the
/// throttle (collapsible). Within a lane messages are delivered in the order of their sequences.
public struct Lane: RawRepresentable, Sendable, Hashable {
    /// Bit 0: high priority. Bit 1: collapsible.
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue & 3 }

    public init(_ priority: MessagePriority, isCollapsible: Bool) {
        rawValue = (priority == .high ? 1 : 0) | (isCollapsible ? 2 : 0)
    }

    @inlinable public var isHigh: Bool { rawValue & 1 != 0 }
    @inlinable public var isCollapsible: Bool { rawValue & 2 != 0 }
    public static let count = 4
    public static let all = (0..<UInt8(count)).map { Lane(rawValue: $0) }
}

/// A position in the project's order of messages for each lane.
public struct LaneMarks: Sendable, Hashable {
    private var marks: SIMD4<UInt64>

    public init(_ all: MessageSequence) { marks = SIMD4(repeating: all.rawValue) }

    public subscript(lane: Lane) -> MessageSequence {
        get { MessageSequence(marks[Int(lane.rawValue)]) }
        set { marks[Int(lane.rawValue)] = newValue.rawValue }
    }

    public var lowest: MessageSequence { MessageSequence(marks.min()) }
    public var highest: MessageSequence { MessageSequence(marks.max()) }
    public var isEven: Bool { marks.min() == marks.max() }

    /// The same, but none behind a message.
    public func limited(to sequence: MessageSequence) -> LaneMarks {
        var limited = self
        limited.marks.replace(
            with: SIMD4(repeating: sequence.rawValue), where: marks .> sequence.rawValue)
        return limited
    }

    /// Each lane's higher one.
    public mutating func formMaximum(_ other: LaneMarks) {
        marks.replace(with: other.marks, where: other.marks .> marks)
    }
}

/// Platforms as a set.
public struct PlatformSet: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public init(_ platform: Platform) { rawValue = 1 << (platform.rawValue - 1) }

    public static let all: PlatformSet = [.init(.android), .init(.apple), .init(.web)]

    public func contains(_ platform: Platform) -> Bool { contains(PlatformSet(platform)) }
}

/// How long a message lives (TTL-1).
public enum Lifespan: Sendable, Hashable {
    /// From its acceptance on; 0: now or never (TTL-2).
    case seconds(UInt32)
    /// Until this instant, at most the maximum from its acceptance on; not later than that: now or
    /// never.
    case until(Instant)

    public static let longest = Lifespan.seconds(Limits.timeToLiveSecondsMax)
}

/// A message as it is to be sent to the instances of some platforms (MSG-5), with everything that
/// holds for them: their block merged into what is common.
public struct OutgoingVariant: Sendable, Hashable {
    public var platforms: PlatformSet
    public var lifespan: Lifespan
    public var priority: MessagePriority
    public var collapse: CollapseKey
    /// MSG-8: only instances of this app.
    public var restrictedPackageName: String?
    /// A valid message in wire form, without platform blocks.
    public var body: [UInt8]

    public init(
        platforms: PlatformSet = .all, lifespan: Lifespan = .longest,
        priority: MessagePriority = .normal, collapse: CollapseKey = .none,
        restrictedPackageName: String? = nil, body: [UInt8]
    ) {
        self.platforms = platforms
        self.lifespan = lifespan
        self.priority = priority
        self.collapse = collapse
        self.restrictedPackageName = restrictedPackageName
        self.body = body
    }
}

/// FAN-1: what becomes of a message to many when its project has as many in progress as it may.
public enum OverloadPolicy: UInt8, Sendable, CaseIterable, Hashable {
    /// It waits until others have ended; if too many wait already it is refused.
    case `defer` = 1
    /// It is refused, with a retry delay.
    case refuse = 2
}
