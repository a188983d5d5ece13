// SPDX-License-Identifier: Apache-2.0
//
// One connection as its loop sees it: who it is and in what phase, beside the session that delivery
// keeps under the same number. Rests on MartletWire's splitter.

import MartletBase
import MartletEngine
import MartletRing
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

/// The loop's part of a connection. An idle one holds no memory besides this.
struct Connection: ~Copyable {
    enum Phase {
        /// Nothing heard yet. Can transition to: registering, open, closing.
        case hello
        /// Waits for the committer to register it. Can transition to: open, closing.
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
    var splitter: FrameSplitter
    var phase: Phase = .hello
    var principal: Principal = .nobody
    /// No frames are taken until answers have left.
    var isPaused = false
    /// What came nevertheless: the kernel had received it before it heard of the pause.
    var backlog: [UInt8] = []
    /// The peer has sent everything; the last of it is in the backlog.
    var endsWithBacklog = false
    /// The peer has sent everything, or nothing more is heard of it.
    var hasEnded = false
    /// What may still come while it lingers.
    var lingerBytesLeft = Connection.lingerBytesMax
    /// Requests that are not answered yet.
    var outstanding: UInt32 = 0
    /// Their bytes.
    var requestBytes = 0
    /// What came of frames that are not whole yet, or not taken.
    var unfinished = RequestCharge(project: nil, byteCount: 0)
    /// Seconds of the loop's clock.
    var phaseBegan: UInt32
    var heard: UInt32
    var sendBegan: UInt32 = 0
    /// When the store was last told that the device is connected (STO-2).
    var seen: UInt32 = 0
    /// RCP-1: a sender that listens has been sent the project's receipts up to here.
    var receiptsAfter: UInt64?
    /// Its queue had no room for more of them.
    var receiptsWait = false
    /// UPS-1: the number of a sender that listens; 0: it does not.
    var upstreamListener: UInt64 = 0
    /// Of a connection of several apps, and of each of them.
    var carriage: Carriage?
    /// An app's; 0: it has a socket of its own.
    var channel: UInt8 = 0
    /// Whether it is one of several on a connection.
    var isApp: Bool { channel != 0 }

    /// Requests past which a connection is not read from until answers have left.
    static let outstandingMax: UInt32 = 1024
    static let outstandingToResume: UInt32 = 512
    /// What a request takes beside its bytes.
    static let requestOverheadBytes = 256
    /// Bytes queued past which it is not read from either: whoever does not read its answers gets no
    /// more of them. Above what messages alone may queue, so that acknowledgements are still read.
    static let queuedBytesMax = 2 * OutputBounds.bytesPerSessionMax
    static let queuedBytesToResume = OutputBounds.bytesPerSessionMax / 2
    /// How often the store is told of a connection that lasts.
    static let seenSeconds: UInt32 = 86_400
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
        splitter = FrameSplitter(frameBytesMax: Limits.deviceFrameBytesMax)
        phaseBegan = now
        heard = now
    }
}
