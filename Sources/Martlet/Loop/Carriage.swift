// SPDX-License-Identifier: Apache-2.0
//
// One connection of several apps: on which channel each is, whom the peer talks to, and whose turn it
// is to be sent. Each app has a place of its own among the loop's connections, and so a session, a
// queue and requests as any other; delivery knows nothing of channels. Only the loop's way to the
// socket does: one app's queue at a time goes out, behind a CHANNEL where that is another than before.
//
//   app's place ─► session, queue ─┐
//   app's place ─► session, queue ─┼─► Carriage ─► socket
//   connection  ─► session, queue ─┘
//
// Rests on MartletWire.

import Glibc
import MartletBase
import MartletRing
import MartletWire

/// The apps of a connection.
final class Carriage {
    /// The socket's.
    let connection: ConnectionID
    /// The channel that the peer's next frame is for.
    var heard: UInt8 = 0
    struct App {
        let place: UInt32
        let channel: UInt8
        /// The peer knows of it. An app that has been told that it is detached waits until that has left,
        /// and its channel is free.
        var isAttached = true
    }

    /// All apps that are not gone yet. They are few: looking through them takes less memory than a table
    /// of channels, and hardly more time.
    private(set) var apps: [App] = []
    /// When the last app left, or the connection began. Seconds of the loop's clock.
    private(set) var emptySince: UInt32

    /// The place whose queue is being sent.
    private(set) var sending: UInt32?
    /// A frame of the queue that was sent last has left in part: that one goes on.
    private var unfinished: UInt32?
    /// The channel that the last frame sent is of.
    private var told: UInt8 = 0
    /// Bytes of CHANNEL that have not left.
    private var prefixBytesLeft: UInt8 = 0
    /// Places that have something to send, in the order in which they had.
    private var waiting: [UInt32] = []

    init(_ connection: ConnectionID, now: UInt32) {
        self.connection = connection
        emptySince = now
    }

    // MARK: Apps

    /// Whether so many apps wait to be told that they have ended that no more are heard of.
    var isCrowded: Bool { apps.count >= 2 * Limits.appsPerConnectionMax }

    func place(of channel: UInt8) -> UInt32? {
        apps.first { $0.channel == channel && $0.isAttached }?.place
    }

    func attach(_ place: UInt32, channel: UInt8) {
        apps.append(App(place: place, channel: channel))
    }

    /// The app was told that its channel is free.
    func free(_ place: UInt32) {
        guard let index = apps.firstIndex(where: { $0.place == place }) else { return }
        apps[index].isAttached = false
    }

    /// Nothing of the app is left.
    func remove(_ place: UInt32, now: UInt32) {
        apps.removeAll { $0.place == place }
        emptySince = now
    }

    // MARK: Sending

    /// Whether this place's queue goes out now; else it waits for its turn.
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

    /// What goes out before the queue, if anything does.
    func prefix(_ prefixes: borrowing ChannelPrefixes) -> iovec? {
        guard prefixBytesLeft > 0 else { return nil }
        return prefixes.last(Int(prefixBytesLeft), of: told)
    }

    /// The send has ended.
    /// - Parameter inFlightBytes: of the queue, the prefix not counted.
    /// - Returns: how much of the queue has left, and who has waited.
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

/// CHANNEL for each channel, where sends find it.
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

/// Places for apps, behind those of the transport's connections.
struct AppPlaces {
    private var free: [UInt32] = []
    private var next: UInt32
    private let end: UInt32
    private var generation: UInt32 = 0

    init(from: Int, to: Int) {
        next = UInt32(from)
        end = UInt32(to)
    }

    mutating func take() -> ConnectionID? {
        let place: UInt32
        if let used = free.popLast() {
            place = used
        } else if next < end {
            place = next
            next += 1
        } else {
            return nil
        }
        generation &+= 1
        return ConnectionID(index: place, generation: generation)
    }

    mutating func giveBack(_ place: UInt32) { free.append(place) }
}
