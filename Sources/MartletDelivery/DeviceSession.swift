// SPDX-License-Identifier: Apache-2.0
//
// The device's part of a session. Most connections are idle, deliver live and have the same marks in all lanes; 48 bytes are
// enough for those. The rest of the marks has its own memory, and only
//
//   - until the first catch-up ends: the absence before the connection, and what it discarded,
//   - while a doze or the throttle holds lanes back: a position for each lane,
//   - while the lanes' marks differ, or a notice of discards is not acknowledged.
//
// Rests on Session and DeviceMarks.

import MartletBase
import MartletEngine
import MartletRows

/// A device's part of its session, made when the device is attached.
struct DeviceSession {
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
    /// The mark of all lanes, while there is no memory for more.
    private var evenMark: UInt64
    private var unevenMarks: UnsafeMutablePointer<DeviceMarks>?
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
        _ = reserve(DeviceMarks(state, position: position))
    }

    // MARK: Marks

    private mutating func reserve(_ marks: DeviceMarks) -> UnsafeMutablePointer<DeviceMarks> {
        let new = UnsafeMutablePointer<DeviceMarks>.allocate(capacity: 1)
        new.initialize(to: marks)
        unevenMarks = new
        return new
    }

    /// All marks. Without memory of their own they are even.
    var marks: DeviceMarks { unevenMarks?.pointee ?? DeviceMarks(even: evenMark) }

    /// The marks to be changed, but for those of acknowledgements. They have memory of their own until `foldMarks`.
    mutating func changingMarks() -> UnsafeMutablePointer<DeviceMarks> {
        unevenMarks ?? reserve(DeviceMarks(even: evenMark))
    }

    /// Frees the memory of the marks if one mark says it all. Called when a split ends and whenever marks move.
    mutating func foldMarks() {
        guard let all = unevenMarks, all.pointee.isFoldable else { return }
        evenMark = all.pointee.acknowledged.lowest.rawValue
        free()
    }

    /// Frees the marks of a closed session.
    mutating func free() {
        unevenMarks?.deallocate()
        unevenMarks = nil
    }

    /// Each lane's position, of a split session.
    var delivered: LaneMarks {
        guard let unevenMarks else {
            invariantFailure("A split session has a position for each lane.")
        }
        return unevenMarks.pointee.delivered
    }

    var acknowledged: LaneMarks {
        get { unevenMarks?.pointee.acknowledged ?? LaneMarks(MessageSequence(evenMark)) }
        set {
            let before = acknowledged
            invariant(newValue.isAtLeast(before), "The marks of a device never go back.")
            if newValue.lowest > before.lowest { flags.insert(.unconfirmed) }
            if unevenMarks == nil, newValue.isEven {
                evenMark = newValue.lowest.rawValue
            } else {
                changingMarks().pointee.acknowledged = newValue
            }
        }
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
    var isSettled: Bool { unevenMarks?.pointee.isSettled ?? true }
    /// We know what the absence discarded (STO-1). After the first catch-up nothing is added, because there is no new absence
    /// while the instance is connected.
    var isDecided: Bool { isStored || isSettled }
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
