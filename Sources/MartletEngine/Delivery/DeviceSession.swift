// SPDX-License-Identifier: Apache-2.0
//
// What delivery knows of a device's connection beside its session. Most connections are idle, live and
// have acknowledged all lanes equally: 48 bytes hold such a one. What matters only meanwhile lies in
// memory of its own, from the moment that something differs to the moment that nothing does:
//
//   - from the connection's beginning until its mailbox has been read once: what was discarded and what
//     is known of the absence before,
//   - while a doze or the throttle holds lanes back: a position for each lane,
//   - while lanes are acknowledged unequally, or a notice of what was discarded is not acknowledged.
//
// Rests on Session.

import MartletBase

/// A device's part of its session. Set when it is attached.
struct DeviceSession {
    /// What a device's connection has only for a time.
    private struct Details {
        var delivered: LaneMarks
        var acknowledged: LaneMarks
        var awayFrom: UInt64 = .max
        var awayThrough: UInt64 = 0
        var discardedThrough: UInt64 = 0
        var discardedCount: UInt64 = 0
        var toldThrough: UInt64 = 0
        var toldBehind: UInt64 = 0
        var noticeTakenThrough: UInt64 = 0
        var dozingFrom: UInt64 = 0
        var heldCount = 0
        var askedThrough: UInt64 = 0
    }

    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let dozing = Flags(rawValue: 1)
        static let throttled = Flags(rawValue: 2)
        static let stored = Flags(rawValue: 4)
        static let waitingForStore = Flags(rawValue: 8)
        static let stale = Flags(rawValue: 16)
        static let unconfirmed = Flags(rawValue: 32)
        static let lost = Flags(rawValue: 64)
        static let overfull = Flags(rawValue: 128)
    }

    let holder: Holder
    /// Rises with every connection of the broker: of two of one instance the higher stays (NET-4).
    let connectionNumber: UInt64
    /// The highest cumulative acknowledgement, or what was acknowledged before this connection.
    var acknowledgedThrough: UInt64
    /// How far all lanes are acknowledged, where there are no details.
    private var evenMark: UInt64
    private var details: UnsafeMutablePointer<Details>?
    /// Which of the loop's `InstanceKinds` it is.
    let kind: UInt32
    private var flags: Flags = .stale
    /// An estimate of the messages acknowledged since the device was last told what is durable.
    var unconfirmedCount: UInt8 = 0

    init(
        kind: UInt32, holder: Holder, connectionNumber: UInt64, _ state: MailboxState,
        position: MessageSequence
    ) {
        self.kind = kind
        self.holder = holder
        self.connectionNumber = connectionNumber
        acknowledgedThrough = state.acknowledged.highest.rawValue
        evenMark = 0
        let details = UnsafeMutablePointer<Details>.allocate(capacity: 1)
        details.initialize(
            to: Details(
                delivered: state.acknowledged, acknowledged: state.acknowledged,
                awayFrom: state.awayFrom.rawValue,
                awayThrough: min(state.awayThrough, position).rawValue,
                discardedThrough: state.discardedThrough.rawValue,
                discardedCount: state.discardedCount))
        self.details = details
    }

    // MARK: Details

    private mutating func reserveDetails() -> UnsafeMutablePointer<Details> {
        if let details { return details }
        let new = UnsafeMutablePointer<Details>.allocate(capacity: 1)
        let marks = LaneMarks(MessageSequence(evenMark))
        new.initialize(to: Details(delivered: marks, acknowledged: marks))
        details = new
        return new
    }

    /// The session is not split any more, or its marks have moved: where nothing that the details say
    /// matters now, they are freed.
    mutating func foldDetails() {
        guard let details, isSettled, acknowledged.isEven else { return }
        let mark = acknowledged.lowest.rawValue
        guard mark >= discardedThrough, mark >= toldThrough, discarded == nil,
            noticeTakenThrough >= toldThrough
        else { return }
        evenMark = mark
        details.deallocate()
        self.details = nil
    }

    /// The session is gone.
    mutating func free() {
        details?.deallocate()
        details = nil
    }

    /// While the session is split: in each lane every stored message up to here was queued for it, or is
    /// none of its, or is gone.
    var delivered: LaneMarks {
        get {
            guard let details else { preconditionFailure("A split session has details.") }
            return details.pointee.delivered
        }
        set { reserveDetails().pointee.delivered = newValue }
    }

    var acknowledged: LaneMarks {
        get { details?.pointee.acknowledged ?? LaneMarks(MessageSequence(evenMark)) }
        set {
            if newValue.lowest > acknowledged.lowest { flags.insert(.unconfirmed) }
            if let details {
                details.pointee.acknowledged = newValue
            } else if newValue.isEven {
                evenMark = newValue.lowest.rawValue
            } else {
                reserveDetails().pointee.acknowledged = newValue
            }
        }
    }

    /// See `MailboxState`; everything from the end of the first catch-up on: nothing is discarded then.
    var awayFrom: UInt64 {
        get { details?.pointee.awayFrom ?? .max }
        set { reserveDetails().pointee.awayFrom = newValue }
    }
    /// Matters as long as the session is not settled.
    var awayThrough: UInt64 {
        get { details?.pointee.awayThrough ?? 0 }
        set { reserveDetails().pointee.awayThrough = newValue }
    }
    /// STO-1: nothing is stored from before; nothing up to here is acknowledged alone. See
    /// `MailboxState`. 0 where the device has acknowledged that.
    var discardedThrough: UInt64 {
        get { details?.pointee.discardedThrough ?? 0 }
        set { reserveDetails().pointee.discardedThrough = newValue }
    }
    var discardedCount: UInt64 {
        get { details?.pointee.discardedCount ?? 0 }
        set { reserveDetails().pointee.discardedCount = newValue }
    }
    /// The last discarded message that the device was told of on this connection (STO-1). 0 where the
    /// device has acknowledged that.
    var toldThrough: UInt64 {
        get { details?.pointee.toldThrough ?? 0 }
        set { reserveDetails().pointee.toldThrough = newValue }
    }

    /// The highest stream ID before the notice, where that is above the notice's own: only an acknowledgement
    /// above it is for the notice too (TTL-4).
    var toldBehind: UInt64 {
        get { details?.pointee.toldBehind ?? 0 }
        set { reserveDetails().pointee.toldBehind = newValue }
    }

    /// The notice with this stream ID was acknowledged on this connection.
    var noticeTakenThrough: UInt64 {
        get { details?.pointee.noticeTakenThrough ?? 0 }
        set { reserveDetails().pointee.noticeTakenThrough = newValue }
    }

    /// STO-1: where a notice lies that the device was not told of on this connection. No mark of its passes
    /// that, so that the notice is not lost with the connection.
    var untoldFrom: UInt64 {
        discardedCount > 0 && discardedThrough > toldThrough ? discardedThrough : .max
    }
    /// STO-1: the last message that the session could have heard of when its doze began.
    var dozingFrom: UInt64 {
        get { details?.pointee.dozingFrom ?? 0 }
        set { reserveDetails().pointee.dozingFrom = newValue }
    }
    /// STO-1: how many messages that are not collapsible the doze holds back. More may have expired than it
    /// says.
    var heldCount: Int {
        get { details?.pointee.heldCount ?? 0 }
        set { reserveDetails().pointee.heldCount = newValue }
    }

    /// STO-1: the last message that the session could have heard of when the store was asked what the doze
    /// discards.
    var askedThrough: UInt64 {
        get { details?.pointee.askedThrough ?? 0 }
        set { reserveDetails().pointee.askedThrough = newValue }
    }

    // MARK: Flags

    /// Closed for a doze, for want of a token, or for both.
    var isDozing: Bool {
        get { flags.contains(.dozing) }
        set { set(.dozing, newValue) }
    }
    var isThrottled: Bool {
        get { flags.contains(.throttled) }
        set { set(.throttled, newValue) }
    }
    /// The store knows of this connection, and with it of everything that its predecessors left.
    var isStored: Bool {
        get { flags.contains(.stored) }
        set { set(.stored, newValue) }
    }
    /// Waits for that.
    var waitsForStore: Bool {
        get { flags.contains(.waitingForStore) }
        set { set(.waitingForStore, newValue) }
    }
    /// STO-1: the store was asked what the doze discards, and has not answered.
    var isOverfull: Bool {
        get { flags.contains(.overfull) }
        set { set(.overfull, newValue) }
    }
    /// A run of the broker before had a connection of the instance, which the store has yet to end.
    var hasLostConnection: Bool {
        get { flags.contains(.lost) }
        set { set(.lost, newValue) }
    }
    /// The state in the store is to be read with the log: what is there goes before what was known when
    /// the session was attached.
    var isStale: Bool {
        get { flags.contains(.stale) }
        set { set(.stale, newValue) }
    }
    /// The lowest mark has risen since the device was last told what is durable.
    var isUnconfirmed: Bool {
        get { flags.contains(.unconfirmed) }
        set { set(.unconfirmed, newValue) }
    }

    private mutating func set(_ flag: Flags, _ isSet: Bool) {
        if isSet { flags.insert(flag) } else { flags.remove(flag) }
    }

    // MARK: What follows

    var closed: LaneSet {
        (isDozing ? .normal : LaneSet()).union(isThrottled ? .collapsible : LaneSet())
    }
    /// It has caught up on this connection once.
    var isSettled: Bool { awayFrom == .max }

    /// Behind this its mailbox is read. What every lane was delivered, and STO-1 does not count,
    /// matters for nothing that comes later; nothing at all is stored from before what was discarded
    /// last.
    func readAfter(_ delivered: LaneMarks) -> MessageSequence {
        MessageSequence(
            max(
                acknowledged.lowest.rawValue, min(delivered.lowest.rawValue, awayFrom),
                discardedThrough))
    }

    /// The known discards without an acknowledged notice. A notice of later discards too (STO-2) lies behind
    /// messages, so marks may pass the discards before the notice is acknowledged.
    var discarded: (count: UInt64, through: MessageSequence)? {
        guard discardedCount > 0, discardedThrough > noticeTakenThrough else { return nil }
        return (discardedCount, MessageSequence(discardedThrough))
    }
}

/// What instances of one app have in common.
struct InstanceKind: Hashable {
    var app: AppNumber
    var platform: Platform
    /// See `MailboxOwner`.
    var appKey: CollapseDigest
}

/// The kinds of all instances that were ever connected to a loop, numbered: each session names its own
/// with 4 bytes. There are no more than apps.
struct InstanceKinds {
    private var kinds: [InstanceKind] = []
    private var numbers: [InstanceKind: UInt32] = [:]

    subscript(number: UInt32) -> InstanceKind { kinds[Int(number)] }

    mutating func number(of kind: InstanceKind) -> UInt32 {
        if let number = numbers[kind] { return number }
        let number = UInt32(kinds.count)
        kinds.append(kind)
        numbers[kind] = number
        return number
    }
}
