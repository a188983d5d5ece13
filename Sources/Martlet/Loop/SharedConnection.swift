// SPDX-License-Identifier: Apache-2.0
//
// A connection of several apps. It knows the channel of each app, the channel of the peer's next frame, and the
// queue to be sent next. Each app has a place of its own among the loop's connections, and so a session, a queue
// and requests like any other connection. Delivery knows no channels. Only the loop's way to the socket does: the
// queues are sent one at a time, and a CHANNEL frame precedes the queue if its channel differs from the channel
// before.
//
//   app's place ─► session, queue ─┐
//   app's place ─► session, queue ─┼─► socket
//   connection  ─► session, queue ─┘
//
// Rests on MartletWire.

import Glibc
import MartletBase
import MartletDelivery
import MartletTransport
import MartletWire

/// The apps of a connection.
final class SharedConnection {
    /// The connection with the socket.
    let connection: ConnectionID
    /// REG-8, REG-10: the address of the peer.
    let address: PeerAddress
    /// Channel of the peer's next frame; 0: the connection itself.
    var heard: UInt8 = 0
    struct App {
        let place: UInt32
        let channel: UInt8
        /// Whether the channel belongs to the app. After DETACHED the channel is free, but the app keeps its
        /// place until its queue has left.
        var isAttached = true
    }

    /// All apps with a place. A connection has few apps, so a list takes less memory than a table of channels,
    /// and a search hardly more time.
    private(set) var apps: [App] = []
    /// When the last app with WELCOME left, or the connection began. Seconds of the loop's clock.
    private(set) var emptySince: UInt32
    /// Apps that left without WELCOME, since the last WELCOME.
    var refusedCount = 0
    /// Apps refused one after another, past which the connection ends. A device of which most apps must register anew
    /// needs a few connections; a stranger that tries tokens opens a connection for each few.
    static let refusedMax = 16

    /// Place of the queue in the current send.
    private(set) var sending: UInt32?
    /// Place of a queue with a partly sent frame. No other queue may be sent before the rest of the frame.
    private var unfinished: UInt32?
    /// Channel of the last frame sent.
    private var told: UInt8 = 0
    /// Unsent bytes of the CHANNEL frame.
    private var prefixBytesLeft: UInt8 = 0
    /// Places with bytes to send, in the order of becoming ready.
    private var waiting: [UInt32] = []

    init(_ connection: ConnectionID, from address: PeerAddress, now: UInt32) {
        self.connection = connection
        self.address = address
        emptySince = now
    }

    // MARK: Apps

    /// Whether the peer's frames must wait, because too many ended apps still have unsent frames.
    var isCrowded: Bool { apps.count >= 2 * Limits.appsPerConnectionMax }

    func place(of channel: UInt8) -> UInt32? {
        apps.first { $0.channel == channel && $0.isAttached }?.place
    }

    func attach(_ place: UInt32, channel: UInt8) {
        apps.append(App(place: place, channel: channel))
    }

    /// Frees the channel of an app after DETACHED.
    func free(_ place: UInt32) {
        guard let index = apps.firstIndex(where: { $0.place == place }) else { return }
        apps[index].isAttached = false
    }

    /// Removes an app whose place is given back. A refused app does not prolong the life of an empty connection.
    func remove(_ place: UInt32, wasWelcomed: Bool, now: UInt32) {
        apps.removeAll { $0.place == place }
        if wasWelcomed { emptySince = now } else { refusedCount += 1 }
    }

    // MARK: Sending

    /// Begins the send of a place's queue.
    /// - Returns: false if another queue goes first; the place then waits for its turn.
    func begin(_ place: UInt32, channel: UInt8) -> Bool {
        guard sending == nil, unfinished == nil || unfinished == place else {
            if !waiting.contains(place) { waiting.append(place) }
            return false
        }
        if unfinished == nil, channel != told {
            told = channel
            prefixBytesLeft = UInt8(ChannelPrefixes.byteCount)
        }
        sending = place
        return true
    }

    /// The unsent bytes of the CHANNEL frame before the queue; nil: no bytes are left.
    func prefix(_ prefixes: borrowing ChannelPrefixes) -> iovec? {
        guard prefixBytesLeft > 0 else { return nil }
        return prefixes.last(Int(prefixBytesLeft), of: told)
    }

    /// Ends the current send.
    /// - Parameter inFlightBytes: bytes of the queue in the send, without the CHANNEL frame.
    /// - Returns: sent bytes of the queue, and the waiting places.
    func sent(byteCount: Int, inFlightBytes: Int) -> (byteCount: Int, waiting: [UInt32]) {
        let prefix = min(byteCount, Int(prefixBytesLeft))
        prefixBytesLeft -= UInt8(prefix)
        let left = byteCount - prefix
        unfinished = prefixBytesLeft > 0 || left < inFlightBytes ? sending : nil
        sending = nil
        let result = (left, waiting)
        waiting = []
        return result
    }
}

/// The CHANNEL frames of all channels, in memory for the vectors of sends.
struct ChannelPrefixes: ~Copyable {
    static let byteCount = 6
    private let bytes: UnsafeMutableRawBufferPointer

    init() {
        var writer = WireWriter()
        for number in 0...UInt8(Limits.appsPerConnectionMax) {
            ChannelSelection(number: number).encode(into: &writer)
        }
        bytes = .allocate(byteCount: writer.bytes.count, alignment: 8)
        bytes.copyBytes(from: writer.bytes)
    }

    deinit { bytes.deallocate() }

    func last(_ count: Int, of channel: UInt8) -> iovec {
        let end = (Int(channel) + 1) * Self.byteCount
        return iovec(iov_base: bytes.baseAddress! + (end - count), iov_len: count)
    }
}
