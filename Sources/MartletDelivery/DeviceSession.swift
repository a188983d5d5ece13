// SPDX-License-Identifier: Apache-2.0
//
// The device's part of a session. Most connections are idle, deliver live messages and have equal marks in
// all lanes: 48 bytes hold such a connection. Details lie in memory of their own and exist in three states:
//
//   - before the end of the first catch-up: the discards and the absence before the connection,
//   - while a doze or the throttle holds lanes back: a position for each lane,
//   - while the marks of the lanes differ, or a notice of discards is not acknowledged.
//
// Rests on Session.

import MartletBase
import MartletEngine
import MartletRows

/// A device's part of its session. Delivery creates the value when a device is attached.
struct DeviceSession {
    /// State that a connection needs for a part of its time only.
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
    /// Rises with every connection of the broker. Of two connections of one instance, the connection with
    /// the higher number stays (NET-4).
    let connectionNumber: UInt64
    /// The highest cumulative acknowledgement of this connection; before the first, the instance's highest mark.
    var acknowledgedThrough: UInt64
    /// The mark of all lanes of a session without details.
    private var evenMark: UInt64
    private var details: UnsafeMutablePointer<Details>?
    /// The number of the instance's kind in the loop's `InstanceKinds`.
    let kind: UInt32
    private var flags: Flags = .stale
    /// Every message up to here is acknowledged on disk, if a CONFIRMED frame is due.
    var confirmableThrough: UInt64 = 0
    /// An estimate of the messages acknowledged since the last CONFIRMED frame to the device.
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

    /// Frees the details of a session with equal marks, no open notice and a finished catch-up. Delivery calls the
    /// function at the end of a split and at each move of the marks.
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

    /// The position of each lane of a split session. Each stored message up to the position was queued for
    /// the session, is for other instances, or does not exist any more.
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

    /// The start of the absence before the connection (see `MailboxState`). The highest value after the first
    /// catch-up, because a connected instance has no absence.
    var awayFrom: UInt64 {
        get { details?.pointee.awayFrom ?? .max }
        set { reserveDetails().pointee.awayFrom = newValue }
    }
    /// The end of the absence before the connection (see `MailboxState`). Unused after the first catch-up.
    var awayThrough: UInt64 {
        get { details?.pointee.awayThrough ?? 0 }
        set { reserveDetails().pointee.awayThrough = newValue }
    }
    /// STO-1: the last discarded message. The mailbox holds no message before this sequence, and a cumulative
    /// acknowledgement below this sequence has no effect. 0: no discards.
    var discardedThrough: UInt64 {
        get { details?.pointee.discardedThrough ?? 0 }
        set { reserveDetails().pointee.discardedThrough = newValue }
    }
    var discardedCount: UInt64 {
        get { details?.pointee.discardedCount ?? 0 }
        set { reserveDetails().pointee.discardedCount = newValue }
    }
    /// OPS-7: the stream ID of the notice of the known discards, as `MailboxState` has it.
    var noticeStreamID: UInt64 {
        get { details?.pointee.noticeStreamID ?? 0 }
        set { reserveDetails().pointee.noticeStreamID = newValue }
    }
    /// STO-1: the stream ID of the notice of the known discards. 0: no discards.
    var notice: UInt64 { discardedCount > 0 ? max(discardedThrough, noticeStreamID) : 0 }
    /// STO-1: the stream ID of the last notice on this connection. 0: no notice.
    var toldThrough: UInt64 {
        get { details?.pointee.toldThrough ?? 0 }
        set { reserveDetails().pointee.toldThrough = newValue }
    }

    /// STO-1: the value of `notice` when DELETED was queued last. Differs from `toldThrough` if DELETED had the stream ID of
    /// a message that was discarded because the instance was inactive (STO-2).
    var toldNotice: UInt64 {
        get { details?.pointee.toldNotice ?? 0 }
        set { reserveDetails().pointee.toldNotice = newValue }
    }

    /// TTL-4: the highest stream ID on the connection before a late notice. A cumulative acknowledgement up to
    /// this stream ID may be older than the notice, and does not count for the notice. 0: the notice was not late.
    var toldBehind: UInt64 {
        get { details?.pointee.toldBehind ?? 0 }
        set { reserveDetails().pointee.toldBehind = newValue }
    }

    /// The stream ID of the last notice that the device has acknowledged on this connection.
    var noticeTakenThrough: UInt64 {
        get { details?.pointee.noticeTakenThrough ?? 0 }
        set { reserveDetails().pointee.noticeTakenThrough = newValue }
    }

    /// STO-1: the connection has told all notices up to this stream ID.
    var toldLast: UInt64 { max(toldThrough, toldNotice) }
    /// STO-1: the stream ID of the known discards' notice until the connection tells the notice; then the highest number.
    /// The lowest mark stays below, because a client drops a notice up to the lowest mark.
    var untoldFrom: UInt64 { notice > toldLast ? notice : .max }
    /// STO-1: the project's last message when the doze began.
    var dozingFrom: UInt64 {
        get { details?.pointee.dozingFrom ?? 0 }
        set { reserveDetails().pointee.dozingFrom = newValue }
    }
    /// STO-1: the number of plain messages that the doze holds back. Expired messages stay in the count.
    var heldCount: Int {
        get { details?.pointee.heldCount ?? 0 }
        set { reserveDetails().pointee.heldCount = newValue }
    }

    /// STO-1: the project's last message when the session asked the store for the discards of the doze.
    var askedThrough: UInt64 {
        get { details?.pointee.askedThrough ?? 0 }
        set { reserveDetails().pointee.askedThrough = newValue }
    }

    // MARK: Flags

    /// PRI-1: the device is in doze, so the lanes of normal priority are closed.
    var isDozing: Bool {
        get { flags.contains(.dozing) }
        set { set(.dozing, newValue) }
    }
    var isThrottled: Bool {
        get { flags.contains(.throttled) }
        set { set(.throttled, newValue) }
    }
    /// The store has a row for this connection, and has applied the departures of the connections before.
    var isStored: Bool {
        get { flags.contains(.stored) }
        set { set(.stored, newValue) }
    }
    /// OPS-7: a notice of discards was told before the store knew of the connection. The store may give the notice
    /// another stream ID with the news of the connection (see `Absences`).
    var isToldEarly: Bool {
        get { flags.contains(.toldEarly) }
        set { set(.toldEarly, newValue) }
    }
    /// The session does not read its mailbox before the store has answered.
    var waitsForStore: Bool {
        get { flags.contains(.waitingForStore) }
        set { set(.waitingForStore, newValue) }
    }
    /// STO-1: the session has asked the store for the discards of the doze, and has no answer yet.
    var isOverfull: Bool {
        get { flags.contains(.overfull) }
        set { set(.overfull, newValue) }
    }
    /// The store has not yet ended a connection of the instance from an earlier run of the broker.
    var hasLostConnection: Bool {
        get { flags.contains(.lost) }
        set { set(.lost, newValue) }
    }
    /// The first reading of the log takes the state from the store. The state at the time of attaching may
    /// be older.
    var isStale: Bool {
        get { flags.contains(.stale) }
        set { set(.stale, newValue) }
    }
    /// The lowest mark has risen since the last CONFIRMED frame to the device.
    var isUnconfirmed: Bool {
        get { flags.contains(.unconfirmed) }
        set { set(.unconfirmed, newValue) }
    }

    /// GW-11: the session belongs to the door to push services.
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
    /// The session has finished its first catch-up.
    var isSettled: Bool { awayFrom == .max }
    /// STO-1: the discards of the absence before the connection are known. After the first catch-up the store has no
    /// discards to add, because no further absence begins while the instance has a connection.
    var isDecided: Bool { isStored || isSettled }

    /// The start of the next reading of the mailbox. The reading skips acknowledged messages, messages before the last discard,
    /// and messages that were delivered in every lane and do not count against the limit of stored messages (STO-1).
    func readAfter(_ delivered: LaneMarks) -> MessageSequence {
        MessageSequence(
            max(
                acknowledged.lowest.rawValue, min(delivered.lowest.rawValue, awayFrom),
                discardedThrough))
    }

    /// The known discards without an acknowledged notice. A notice of later discards too (STO-2) lies behind
    /// messages, so marks may pass the discards before the notice is acknowledged.
    var discarded: (count: UInt64, through: MessageSequence)? {
        guard notice > noticeTakenThrough else { return nil }
        return (discardedCount, MessageSequence(discardedThrough))
    }
}

/// Properties of an instance that are equal in all instances of its app.
struct InstanceKind: Hashable {
    var app: AppNumber
    var platform: Platform
    /// The digest of the app's package name (see `MailboxOwner`).
    var appKey: CollapseDigest
}

/// The numbered kinds of all instances with a connection to a loop, past connections included. A session holds
/// the number, 4 bytes. A loop has at most as many kinds as apps exist.
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
