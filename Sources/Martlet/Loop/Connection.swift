// SPDX-License-Identifier: Apache-2.0
//
// A connection from the loop's view: its peer and its phase. Delivery has a session under the same number.
// Rests on MartletWire's splitter.

import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import MartletThreads
import MartletTransport
import MartletWire

/// The peer of a connection, as HELLO has shown.
enum Principal {
    case nobody
    case device(ProjectNumber, Ordinal, Holder)
    case sender(ProjectNumber)
    /// An administrator, and the project named in HELLO, if any.
    case administrator(ProjectNumber?)

    /// REG-5: the project for which the peer acts as a sender. A device's credential never authorises a
    /// sender's requests.
    /// - Throws: `PERMISSION_DENIED` for a device, and for an administrator without a project.
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

    /// The project charged for the connection's memory.
    var project: ProjectNumber? {
        switch self {
        case .device(let project, _, _), .sender(let project): project
        case .administrator(let project): project
        case .nobody: nil
        }
    }

    /// The holder of a device's ordinal; nil for any other peer.
    var holder: Holder? {
        if case .device(_, _, let holder) = self { holder } else { nil }
    }
}

/// The loop's part of a connection, or of an app on a connection of several apps. The part has 64 bytes. An
/// idle connection of a single app holds no other memory here.
struct Connection: ~Copyable {
    /// The phases of a connection. In addition to the listed transitions, the loop can close a connection in
    /// any phase, and at the end of a connection its apps begin to linger.
    enum Phase {
        /// No HELLO has come. Can transition to: awaitingWelcome, open, finishing, closing, lingering.
        case hello
        /// HELLO has come and has no answer yet: a registration, the check of a ticket or a newer store is awaited. Frames
        /// of the peer wait too. Can transition to: hello, open, finishing, closing.
        case awaitingWelcome
        /// HELLO was answered. Can transition to: finishing, closing, lingering.
        case open
        /// No more frames are taken, because the peer has sent all its frames or the session has ended.
        /// Outstanding answers are still sent. Can transition to: closing, lingering.
        case finishing
        /// Frames of the peer are not read any more. Queued frames are still sent. Can transition to:
        /// lingering.
        case closing
        /// All frames have left, and the peer was told so. Bytes that still come are dropped, because a close
        /// over unread bytes would take the last frame from the peer. An app ends when its queue has left. Can
        /// transition to: closed.
        case lingering
        /// The transport closes the connection, and no operation may use the number.
        case closed
    }

    let id: ConnectionID
    /// State of few connections at a time. An app shares the state of its connection, because the connection
    /// outlives the app.
    private var extras: UnsafeMutablePointer<ConnectionExtras>?
    var splitter: FrameSplitter
    /// Bytes of unanswered requests.
    var requestBytes: UInt32 = 0
    var principal: Principal = .nobody
    var phase: Phase = .hello
    /// Whether frames of the peer wait until answers have left.
    var isPaused = false
    /// Channel of an app; 0: a connection with a socket of its own.
    let channel: UInt8
    /// Beginning of the phase, or the last sign of life of an open connection. Seconds of the loop's clock,
    /// like `sendBegan`.
    var since: UInt32
    var sendBegan: UInt32 = 0
    /// When the store was last told that the device is connected (STO-2), in whole hours of the loop's clock.
    private var seenHour: UInt16 = 0
    /// Number of unanswered requests.
    var outstanding: UInt16 = 0
    /// Whether the connection is an app on a connection of several apps.
    var isApp: Bool { channel != 0 }

    /// Unanswered requests past which a connection is not read from until answers have left.
    static let outstandingMax: UInt16 = 1024
    static let outstandingToResume: UInt16 = 512
    /// Bytes charged for a request beside the bytes of its frame.
    static let requestOverheadBytes = 256
    /// Queued bytes past which a connection is not read from, so a peer that reads no answers gets no more
    /// answers. The bound is above the bytes of messages alone in a queue, so acknowledgements are still read.
    static let queuedBytesMax = 2 * OutputBounds.bytesPerSessionMax
    /// Hours after which the store is told again of a lasting connection: once a day.
    static let seenHours: UInt16 = 24
    /// Seconds for which a closing connection may take to read its last frame.
    static let closingSecondsMax: UInt32 = 5
    /// Seconds for which a lingering peer may go on talking, and bytes that it may send meanwhile.
    static let lingerSecondsMax: UInt32 = 2
    static let lingerBytesMax = 1 << 20
    /// Milliseconds for which all peers together may go on talking when the broker stops. A connected peer
    /// hears of the end within a round trip, so the time is short.
    static let drainLingerMilliseconds: Int64 = 250
    /// Seconds for which a send may last. A peer that reads no bytes for so long is gone.
    static let sendSecondsMax: UInt32 = 120
    /// Seconds for which a send may last while memory for frames has run out.
    static let stuckSecondsMax: UInt32 = 10

    init(id: ConnectionID, now: UInt32) {
        self.id = id
        channel = 0
        splitter = FrameSplitter(frameBytesMax: Limits.deviceFrameBytesMax)
        since = now
    }

    /// An app on a connection of several apps.
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

    /// The store could not be told of the connection, and is told with the next tick.
    mutating func forgetSeen(_ now: UInt32) { seenHour = Self.hour(now) &- Self.seenHours }

    /// Whether the store must be told of the connection again.
    func isSeenDue(_ now: UInt32) -> Bool { Self.hour(now) &- seenHour >= Self.seenHours }

    private static func hour(_ seconds: UInt32) -> UInt16 {
        UInt16(truncatingIfNeeded: seconds / 3600)
    }

    // MARK: Extras

    /// The apps of a connection that several share, also of each of these apps. nil for a connection of a single app.
    var shared: SharedConnection? {
        get { extras?.pointee.shared }
        set { change(isGone: newValue == nil) { $0.shared = newValue } }
    }
    /// Received bytes that wait while the connection is paused. The kernel receives bytes until it hears of the
    /// pause, and a connection before its WELCOME is still read.
    var backlog: [UInt8] {
        get { own?.pointee.backlog ?? [] }
        set { change(isGone: newValue.isEmpty) { $0.backlog = newValue } }
    }
    var backlogBytes: Int { own?.pointee.backlog.count ?? 0 }
    mutating func keep(_ bytes: UnsafeRawBufferPointer) {
        change(isGone: bytes.isEmpty) { $0.backlog.append(contentsOf: bytes) }
    }
    /// Whether the peer has sent all its bytes, and the last bytes are in the backlog.
    var endsWithBacklog: Bool {
        get { own?.pointee.endsWithBacklog ?? false }
        set { change(isGone: !newValue) { $0.endsWithBacklog = newValue } }
    }
    /// Whether the peer has sent all its bytes, or receiving has failed.
    var hasEnded: Bool {
        get { own?.pointee.hasEnded ?? false }
        set { change(isGone: !newValue) { $0.hasEnded = newValue } }
    }
    /// Bytes that a lingering connection may still receive.
    var lingerBytesLeft: Int {
        get { own?.pointee.lingerBytesLeft ?? Self.lingerBytesMax }
        set { change(isGone: newValue == Self.lingerBytesMax) { $0.lingerBytesLeft = newValue } }
    }
    /// The charge for the bytes of unfinished frames, and of waiting frames.
    var unfinished: RequestCharge {
        get { own?.pointee.unfinished ?? .nothing }
        set { change(isGone: newValue.byteCount == 0) { $0.unfinished = newValue } }
    }
    /// NET-6: when the first byte of the unfinished frame came, in seconds of the loop's clock; nil: no frame is
    /// unfinished.
    var frameSince: UInt32? {
        get { own?.pointee.frameSince }
        set { change(isGone: newValue == nil) { $0.frameSince = newValue } }
    }
    /// RCP-1: event number of the last receipt sent to a listening sender; nil: the peer does not listen.
    var receiptsAfter: UInt64? {
        get { own?.pointee.receiptsAfter }
        set { change(isGone: newValue == nil) { $0.receiptsAfter = newValue } }
    }
    /// Whether receipts wait for room in the queue.
    var receiptsWait: Bool {
        get { own?.pointee.receiptsWait ?? false }
        set { change(isGone: !newValue) { $0.receiptsWait = newValue } }
    }
    /// UPS-1: listener number of a sender; 0: the peer does not listen.
    var upstreamListener: UInt64 {
        get { own?.pointee.upstreamListener ?? 0 }
        set { change(isGone: newValue == 0) { $0.upstreamListener = newValue } }
    }

    /// Frees the received bytes that no one will take.
    mutating func dropUnread() {
        splitter = FrameSplitter(frameBytesMax: Limits.deviceFrameBytesMax)
        backlog = []
        frameSince = nil
    }

    private var own: UnsafeMutablePointer<ConnectionExtras>? { isApp ? nil : extras }

    /// - Parameter isGone: whether the change gives a property the value of a connection without extras.
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

/// State of few connections, and mostly for a short time.
private struct ConnectionExtras {
    var shared: SharedConnection?
    var backlog: [UInt8] = []
    var unfinished = RequestCharge.nothing
    var frameSince: UInt32?
    var receiptsAfter: UInt64?
    var upstreamListener: UInt64 = 0
    var lingerBytesLeft = Connection.lingerBytesMax
    var endsWithBacklog = false
    var hasEnded = false
    var receiptsWait = false

    var isEmpty: Bool {
        shared == nil && backlog.isEmpty && unfinished.byteCount == 0
            && frameSince == nil && receiptsAfter == nil && upstreamListener == 0
            && lingerBytesLeft == Connection.lingerBytesMax
            && !endsWithBacklog && !hasEnded && !receiptsWait
    }
}
