// SPDX-License-Identifier: Apache-2.0
//
// The device's part of a session. Most connections are idle, deliver live and have the same marks in all lanes; 48 bytes are
// enough for those. The rest, the details, has its own memory, and only
//
//   - until the first catch-up ends: the absence before the connection, and what it discarded,
//   - while a doze or the throttle holds lanes back: a position for each lane,
//   - while the lanes' marks differ, or a notice of discards is not acknowledged.
//
// Rests on Session.

import MartletBase
import MartletEngine
import MartletRows

/// A device's part of its session, made when the device is attached.
struct DeviceSession {
    /// What a connection needs only part of the time.
    private struct Details {
        var delivered: LaneMarks
        var acknowledged: LaneMarks
        var awayFrom: UInt64 = .max
        var awayThrough: UInt64 = 0
        var discardedThrough: UInt64 = 0
        var discardedCount: UInt64 = 0
        var noticeStreamID: UInt64 = 0
        var toldThrough: UInt64 = 0
        var toldNotice: UInt64 = 0
        var toldBehind: UInt64 = 0
        var noticeTakenThrough: UInt64 = 0
        var dozingFrom: UInt64 = 0
        var heldCount = 0
        var askedThrough: UInt64 = 0
    }

    private struct Flags: OptionSet {
        let rawValue: UInt16
        static let dozing = Flags(rawValue: 1)
        static let throttled = Flags(rawValue: 2)
        static let stored = Flags(rawValue: 4)
        static let waitingForStore = Flags(rawValue: 8)
        static let stale = Flags(rawValue: 16)
        static let unconfirmed = Flags(rawValue: 32)
        static let lost = Flags(rawValue: 64)
        static let overfull = Flags(rawValue: 128)
        static let bridge = Flags(rawValue: 256)
        static let toldEarly = Flags(rawValue: 512)
    }

    let holder: Holder
    /// Each of the broker's connections has a higher number. Of an instance's two connections the higher one stays (NET-4).
    let connectionNumber: UInt64
    /// This connection's highest cumulative acknowledgement; before the first, the instance's highest mark.
    var acknowledgedThrough: UInt64
    /// The mark of all lanes, while there are no details.
    private var evenMark: UInt64
    private var details: UnsafeMutablePointer<Details>?
    /// The instance's kind, as a number in the loop's `InstanceKinds`.
    let kind: UInt32
    private var flags: Flags = .stale
    /// If a CONFIRMED frame is due: the acknowledgements up to here are on disk.
    var confirmableThrough: UInt64 = 0
    /// About how many messages were acknowledged since the last CONFIRMED frame.
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
                discardedCount: state.discardedCount,
                noticeStreamID: state.noticeStreamID.rawValue))
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

    /// Frees the details once the marks are equal, no notice is open and the first catch-up is over. Called when a split ends
    /// and whenever marks move.
    mutating func foldDetails() {
        guard let details, isSettled, acknowledged.isEven else { return }
        let mark = acknowledged.lowest.rawValue
        guard mark >= discardedThrough, mark >= toldThrough, discarded == nil,
            noticeTakenThrough >= toldThrough
        else { return }
        invariant(acknowledged.isEven, "Marks that differ by lane keep their details.")
        evenMark = mark
        details.deallocate()
        self.details = nil
    }

    /// Frees the details of a closed session.
    mutating func free() {
        details?.deallocate()
        details = nil
    }

    /// Each lane's position, while the session is split: every stored message up to there was queued, is for others, or is
    /// gone.
    var delivered: LaneMarks {
        get {
            guard let details else { invariantFailure("A split session has details.") }
            return details.pointee.delivered
        }
        set { reserveDetails().pointee.delivered = newValue }
    }

    var acknowledged: LaneMarks {
        get { details?.pointee.acknowledged ?? LaneMarks(MessageSequence(evenMark)) }
        set {
            let before = acknowledged
            invariant(newValue.isAtLeast(before), "The marks of a device never go back.")
            if newValue.lowest > before.lowest { flags.insert(.unconfirmed) }
            if let details {
                details.pointee.acknowledged = newValue
            } else if newValue.isEven {
                evenMark = newValue.lowest.rawValue
            } else {
                reserveDetails().pointee.acknowledged = newValue
            }
        }
    }

    /// Where the absence before the connection began (see `MailboxState`). `.max` after the first catch-up, because a connected
    /// instance isn't absent.
    var awayFrom: UInt64 {
        get { details?.pointee.awayFrom ?? .max }
        set { reserveDetails().pointee.awayFrom = newValue }
    }
    /// Where it ended (see `MailboxState`). Unused after the first catch-up.
    var awayThrough: UInt64 {
        get { details?.pointee.awayThrough ?? 0 }
        set { reserveDetails().pointee.awayThrough = newValue }
    }
    /// The last discarded message; 0 if there is none (STO-1). The mailbox has nothing before it, and a cumulative
    /// acknowledgement below it has no effect.
    var discardedThrough: UInt64 {
        get { details?.pointee.discardedThrough ?? 0 }
        set { reserveDetails().pointee.discardedThrough = newValue }
    }
    var discardedCount: UInt64 {
        get { details?.pointee.discardedCount ?? 0 }
        set { reserveDetails().pointee.discardedCount = newValue }
    }
    /// Stream ID of the discard notice, as `MailboxState` has it (OPS-7).
    var noticeStreamID: UInt64 {
        get { details?.pointee.noticeStreamID ?? 0 }
        set { reserveDetails().pointee.noticeStreamID = newValue }
    }
    /// Stream ID of the discard notice; 0 without discards (STO-1).
    var notice: UInt64 { discardedCount > 0 ? max(discardedThrough, noticeStreamID) : 0 }
    /// Stream ID of the last notice on this connection; 0 if there was none (STO-1).
    var toldThrough: UInt64 {
        get { details?.pointee.toldThrough ?? 0 }
        set { reserveDetails().pointee.toldThrough = newValue }
    }

    /// What `notice` was when DELETED was last queued (STO-1). Differs from `toldThrough` if DELETED had the stream ID of a
    /// message that was discarded for inactivity (STO-2).
    var toldNotice: UInt64 {
        get { details?.pointee.toldNotice ?? 0 }
        set { reserveDetails().pointee.toldNotice = newValue }
    }

    /// The highest stream ID on the connection before a late notice; 0 if it wasn't late (TTL-4). A cumulative acknowledgement
    /// up to here may be older than the notice, so it doesn't acknowledge it.
    var toldBehind: UInt64 {
        get { details?.pointee.toldBehind ?? 0 }
        set { reserveDetails().pointee.toldBehind = newValue }
    }

    /// Stream ID of the last notice that the device has acknowledged on this connection.
    var noticeTakenThrough: UInt64 {
        get { details?.pointee.noticeTakenThrough ?? 0 }
        set { reserveDetails().pointee.noticeTakenThrough = newValue }
    }

    /// This connection has told all notices up to here (STO-1).
    var toldLast: UInt64 { max(toldThrough, toldNotice) }
    /// Stream ID of the discard notice while it is undelivered, otherwise `.max` (STO-1). The lowest mark must stay below it,
    /// because a client drops notices up to the lowest mark.
    var untoldFrom: UInt64 { notice > toldLast ? notice : .max }
    /// The project's last message when the doze began (STO-1).
    var dozingFrom: UInt64 {
        get { details?.pointee.dozingFrom ?? 0 }
        set { reserveDetails().pointee.dozingFrom = newValue }
    }
    /// How many messages that aren't collapsible the doze holds back, including those that have expired (STO-1).
    var heldCount: Int {
        get { details?.pointee.heldCount ?? 0 }
        set { reserveDetails().pointee.heldCount = newValue }
    }

    /// The project's last message when the session asked the store what the doze discards (STO-1).
    var askedThrough: UInt64 {
        get { details?.pointee.askedThrough ?? 0 }
        set { reserveDetails().pointee.askedThrough = newValue }
    }

    // MARK: Flags

    /// The device dozes, so the lanes of normal priority are closed (PRI-1).
    var isDozing: Bool {
        get { flags.contains(.dozing) }
        set { set(.dozing, newValue) }
    }
    var isThrottled: Bool {
        get { flags.contains(.throttled) }
        set { set(.throttled, newValue) }
    }
    /// The store has this connection's row, and has applied the departures of earlier ones.
    var isStored: Bool {
        get { flags.contains(.stored) }
        set { set(.stored, newValue) }
    }
    /// A notice was told before the store knew of the connection. When the store hears of it, it may give the notice another
    /// stream ID (OPS-7, see `Absences`).
    var isToldEarly: Bool {
        get { flags.contains(.toldEarly) }
        set { set(.toldEarly, newValue) }
    }
    /// Don't read the mailbox until the store has answered.
    var waitsForStore: Bool {
        get { flags.contains(.waitingForStore) }
        set { set(.waitingForStore, newValue) }
    }
    /// The store was asked what the doze discards and hasn't answered yet (STO-1).
    var isOverfull: Bool {
        get { flags.contains(.overfull) }
        set { set(.overfull, newValue) }
    }
    /// The store hasn't yet ended the instance's connection from an earlier run of the broker.
    var hasLostConnection: Bool {
        get { flags.contains(.lost) }
        set { set(.lost, newValue) }
    }
    /// The first reading takes the state from the store again, because the one from attaching may be out of date.
    var isStale: Bool {
        get { flags.contains(.stale) }
        set { set(.stale, newValue) }
    }
    /// The lowest mark has risen since the last CONFIRMED frame.
    var isUnconfirmed: Bool {
        get { flags.contains(.unconfirmed) }
        set { set(.unconfirmed, newValue) }
    }

    /// The session belongs to the door to push services (GW-11).
    var isBridge: Bool {
        get { flags.contains(.bridge) }
        set { set(.bridge, newValue) }
    }

    private mutating func set(_ flag: Flags, _ isSet: Bool) {
        if isSet { flags.insert(flag) } else { flags.remove(flag) }
    }

    // MARK: What follows

    var closed: LaneSet {
        (isDozing ? .normal : LaneSet()).union(isThrottled ? .collapsible : LaneSet())
    }
    /// The first catch-up is over.
    var isSettled: Bool { awayFrom == .max }
    /// We know what the absence discarded (STO-1). After the first catch-up nothing is added, because there is no new absence
    /// while the instance is connected.
    var isDecided: Bool { isStored || isSettled }

    /// Where the next reading starts. It skips what is acknowledged, what lies before the last discard, and what was delivered
    /// in every lane and doesn't count towards the limit of stored messages (STO-1).
    func readAfter(_ delivered: LaneMarks) -> MessageSequence {
        MessageSequence(
            max(
                acknowledged.lowest.rawValue, min(delivered.lowest.rawValue, awayFrom),
                discardedThrough))
    }

    /// The discards whose notice isn't acknowledged. If the notice covers later discards too (STO-2) it comes after messages,
    /// so marks may pass the discards first.
    var discarded: (count: UInt64, through: MessageSequence)? {
        guard notice > noticeTakenThrough else { return nil }
        return (discardedCount, MessageSequence(discardedThrough))
    }
}

/// What all instances of an app have in common.
struct InstanceKind: Hashable {
    var app: AppNumber
    var platform: Platform
    /// The digest of the app's package name (see `MailboxOwner`).
    var appKey: CollapseDigest
}

/// The kinds of all instances that are or were connected to a loop, numbered: a session holds only the number, 4 bytes. There
/// are at most as many kinds as apps.
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
