// SPDX-License-Identifier: Apache-2.0
//
// One connection as its loop sees it: who it is and in what phase, beside the session that delivery
// keeps under the same number. Rests on MartletWire's splitter.

import MartletBase
import MartletEngine
import MartletRing
import MartletRows
import MartletWire

/// Who a connection belongs to.
enum Principal {
    case nobody
    case device(ProjectNumber, Ordinal, Holder)
    case sender(ProjectNumber)
    /// With the project it acts for, if it named one.
    case administrator(ProjectNumber?)

    /// REG-5: a device's credential never authorises what senders do.
    func senderProject() throws(MartletError) -> ProjectNumber {
        switch self {
        case .sender(let project), .administrator(.some(let project)): return project
        case .administrator(.none):
            throw MartletError(
                .permissionDenied, "Name a project in HELLO to act as its sender.",
                field: "project")
        case .device, .nobody:
            throw MartletError(
                .permissionDenied, "Only a sender may ask this; connect with a server key.")
        }
    }

    func checkAdministrator() throws(MartletError) {
        guard case .administrator = self else {
            throw MartletError(.permissionDenied, "Only an administrator may ask this.")
        }
    }

    /// Whose memory it takes.
    var project: ProjectNumber? {
        switch self {
        case .device(let project, _, _), .sender(let project): project
        case .administrator(let project): project
        case .nobody: nil
        }
    }

    /// Whose ordinal a device's is.
    var holder: Holder? {
        if case .device(_, _, let holder) = self { holder } else { nil }
    }
}

/// The loop's part of a connection, or of an app on one. 64 bytes: an idle one holds no memory besides,
/// but for a connection of several apps.
struct Connection: ~Copyable {
    enum Phase {
        /// Nothing heard yet. Can transition to: registering, open, closing.
        case hello
        /// Waits for the committer to register it; what the peer says meanwhile waits too. Can transition
        /// to: open, closing, closed.
        case registering
        /// Can transition to: finishing, closing.
        case open
        /// The peer has sent everything; its answers are still sent. Can transition to: lingering,
        /// closed.
        case finishing
        /// Nothing more is read; what is queued is still sent. Can transition to: lingering, closed.
        case closing
        /// Everything is sent and the peer has been told that it was; what still comes is dropped, since
        /// closing over it would take the last frame from the peer. An app goes when its queue has
        /// left. Can transition to: closed.
        case lingering
        /// Handed to the transport to close; its number may not be used.
        case closed
    }

    let id: ConnectionID
    /// What few connections have at a time. An app's is that of its connection, which outlives it.
    private var extras: UnsafeMutablePointer<ConnectionExtras>?
    var splitter: FrameSplitter
    /// Bytes of requests that are not answered yet.
    var requestBytes: UInt32 = 0
    var principal: Principal = .nobody
    var phase: Phase = .hello
    /// No frames are taken until answers have left.
    var isPaused = false
    /// An app's; 0: it has a socket of its own.
    let channel: UInt8
    /// When the phase began, or the open connection was last heard of. Seconds of the loop's clock, as
    /// below.
    var since: UInt32
    var sendBegan: UInt32 = 0
    /// When the store was last told that the device is connected (STO-2), in whole hours.
    private var seenHour: UInt16 = 0
    /// Requests that are not answered yet.
    var outstanding: UInt16 = 0
    /// Whether it is one of several on a connection.
    var isApp: Bool { channel != 0 }

    /// Requests past which a connection is not read from until answers have left.
    static let outstandingMax: UInt16 = 1024
    static let outstandingToResume: UInt16 = 512
    /// What a request takes beside its bytes.
    static let requestOverheadBytes = 256
    /// Bytes queued past which it is not read from either: whoever does not read its answers gets no
    /// more of them. Above what messages alone may queue, so that acknowledgements are still read.
    static let queuedBytesMax = 2 * OutputBounds.bytesPerSessionMax
    static let queuedBytesToResume = OutputBounds.bytesPerSessionMax / 2
    /// How often the store is told of a connection that lasts: once a day.
    static let seenHours: UInt16 = 24
    /// How long a closing connection may take to read its last frame.
    static let closingSecondsMax: UInt32 = 5
    /// How long, and for how many bytes, a peer that has been told its last frame may go on talking.
    static let lingerSecondsMax: UInt32 = 2
    static let lingerBytesMax = 1 << 20
    /// The same for all together when the broker stops: who is there hears of it in a round trip.
    static let drainLingerMilliseconds: Int64 = 250
    /// How long one send may take: a peer that reads nothing for so long is gone.
    static let sendSecondsMax: UInt32 = 120
    /// The same where memory for frames has run out.
    static let stuckSecondsMax: UInt32 = 10

    init(id: ConnectionID, now: UInt32) {
        self.id = id
        channel = 0
        splitter = FrameSplitter(frameBytesMax: Limits.deviceFrameBytesMax)
        since = now
    }

    /// An app on a connection of several.
    init(id: ConnectionID, channel: UInt8, on connection: borrowing Connection, now: UInt32) {
        self.id = id
        self.channel = channel
        extras = connection.extras
        splitter = FrameSplitter(frameBytesMax: Limits.deviceFrameBytesMax)
        since = now
    }

    deinit { if !isApp { Self.free(extras) } }

    private static func free(_ extras: UnsafeMutablePointer<ConnectionExtras>?) {
        guard let extras else { return }
        extras.deinitialize(count: 1)
        extras.deallocate()
    }

    // MARK: Time

    mutating func noteSeen(_ now: UInt32) { seenHour = Self.hour(now) }

    /// The store could not be told: it is with the next tick.
    mutating func forgetSeen(_ now: UInt32) { seenHour = Self.hour(now) &- Self.seenHours }

    /// Whether the store was told so long ago that it is told again.
    func isSeenDue(_ now: UInt32) -> Bool { Self.hour(now) &- seenHour >= Self.seenHours }

    private static func hour(_ seconds: UInt32) -> UInt16 {
        UInt16(truncatingIfNeeded: seconds / 3600)
    }

    // MARK: Extras

    /// Of a connection of several apps, and of each of them.
    var carriage: Carriage? {
        get { extras?.pointee.carriage }
        set { change(isGone: newValue == nil) { $0.carriage = newValue } }
    }
    /// What came although the connection is paused: the kernel had received it before it heard of that.
    var backlog: [UInt8] {
        get { own?.pointee.backlog ?? [] }
        set { change(isGone: newValue.isEmpty) { $0.backlog = newValue } }
    }
    var backlogBytes: Int { own?.pointee.backlog.count ?? 0 }
    mutating func keep(_ bytes: UnsafeRawBufferPointer) {
        change(isGone: bytes.isEmpty) { $0.backlog.append(contentsOf: bytes) }
    }
    /// The peer has sent everything; the last of it is in the backlog.
    var endsWithBacklog: Bool {
        get { own?.pointee.endsWithBacklog ?? false }
        set { change(isGone: !newValue) { $0.endsWithBacklog = newValue } }
    }
    /// The peer has sent everything, or nothing more is heard of it.
    var hasEnded: Bool {
        get { own?.pointee.hasEnded ?? false }
        set { change(isGone: !newValue) { $0.hasEnded = newValue } }
    }
    /// What may still come while it lingers.
    var lingerBytesLeft: Int {
        get { own?.pointee.lingerBytesLeft ?? Self.lingerBytesMax }
        set { change(isGone: newValue == Self.lingerBytesMax) { $0.lingerBytesLeft = newValue } }
    }
    /// What came of frames that are not whole yet, or not taken.
    var unfinished: RequestCharge {
        get { own?.pointee.unfinished ?? .nothing }
        set { change(isGone: newValue.byteCount == 0) { $0.unfinished = newValue } }
    }
    /// RCP-1: a sender that listens has been sent the project's receipts up to here.
    var receiptsAfter: UInt64? {
        get { own?.pointee.receiptsAfter }
        set { change(isGone: newValue == nil) { $0.receiptsAfter = newValue } }
    }
    /// Its queue had no room for more of them.
    var receiptsWait: Bool {
        get { own?.pointee.receiptsWait ?? false }
        set { change(isGone: !newValue) { $0.receiptsWait = newValue } }
    }
    /// UPS-1: the number of a sender that listens; 0: it does not.
    var upstreamListener: UInt64 {
        get { own?.pointee.upstreamListener ?? 0 }
        set { change(isGone: newValue == 0) { $0.upstreamListener = newValue } }
    }

    private var own: UnsafeMutablePointer<ConnectionExtras>? { isApp ? nil : extras }

    /// - Parameter isGone: what is changed becomes what it is without extras.
    private mutating func change(isGone: Bool, _ change: (inout ConnectionExtras) -> Void) {
        precondition(!isApp || isGone, "An app has nothing of this kind.")
        guard !isApp else { return }
        if extras == nil {
            guard !isGone else { return }
            let new = UnsafeMutablePointer<ConnectionExtras>.allocate(capacity: 1)
            new.initialize(to: ConnectionExtras())
            extras = new
        }
        guard let extras else { return }
        change(&extras.pointee)
        guard isGone, extras.pointee.isEmpty else { return }
        Self.free(extras)
        self.extras = nil
    }
}

/// What few connections have, and those that have it mostly not for long.
private struct ConnectionExtras {
    var carriage: Carriage?
    var backlog: [UInt8] = []
    var unfinished = RequestCharge.nothing
    var receiptsAfter: UInt64?
    var upstreamListener: UInt64 = 0
    var lingerBytesLeft = Connection.lingerBytesMax
    var endsWithBacklog = false
    var hasEnded = false
    var receiptsWait = false

    var isEmpty: Bool {
        carriage == nil && backlog.isEmpty && unfinished.byteCount == 0 && receiptsAfter == nil
            && upstreamListener == 0 && lingerBytesLeft == Connection.lingerBytesMax
            && !endsWithBacklog && !hasEnded && !receiptsWait
    }
}
