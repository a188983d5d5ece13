// SPDX-License-Identifier: Apache-2.0
//
// Connections of several apps (NET-4). An app opens, talks and ends on its channel like the connection of a
// single device. Only the socket and its deadlines belong to the whole connection. Rests on SharedConnection.

import Glibc
import MartletBase
import MartletDelivery
import MartletEngine
import MartletTransport
import MartletWire

extension Loop where Kernel: ~Copyable {
    /// The connection with the socket. For an app: the connection of several apps. Otherwise: the connection
    /// itself.
    func carrier(
        of connection: UnsafeMutablePointer<Connection>
    ) -> UnsafeMutablePointer<Connection> {
        guard connection.pointee.isApp, let shared = connection.pointee.shared else {
            return connection
        }
        return places[shared.connection.index]
    }

    /// Bytes queued for a connection. For a connection of several apps: the bytes of its longest queue.
    func queuedBytes(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        let own = delivery.queuedBytes(connection.pointee.id.index)
        guard !connection.pointee.isApp, let shared = connection.pointee.shared else {
            return own
        }
        var most = own
        for app in shared.apps { most = max(most, delivery.queuedBytes(app.place)) }
        return most
    }

    func isCrowded(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        connection.pointee.shared?.isCrowded ?? false
    }

    // MARK: Frames of the peer

    /// Serves a frame of a connection of several apps.
    mutating func hear(
        _ frame: consuming ClientFrame, _ shared: SharedConnection,
        _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        if let channel = frame.channel {
            shared.heard = channel
            return
        }
        guard shared.heard != 0 else { return try handle(frame, of: connection) }
        guard let app = try addressee(of: frame, shared, connection) else { return }
        do { try handle(frame, of: app) } catch { fail(app, for: error) }
    }

    private mutating func addressee(
        of frame: ClientFrame, _ shared: SharedConnection,
        _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> UnsafeMutablePointer<Connection>? {
        let isHello = if case .hello = frame { true } else { false }
        guard let place = shared.place(of: shared.heard) else {
            // A frame for an ended app is dropped.
            return isHello ? openApp(shared, connection) : nil
        }
        guard !isHello else {
            throw MartletError(.protocolViolation, "HELLO comes on a channel that is free.")
        }
        let app = places[place]
        return app.pointee.phase.isReading ? app : nil
    }

    private mutating func openApp(
        _ shared: SharedConnection, _ connection: UnsafeMutablePointer<Connection>
    ) -> UnsafeMutablePointer<Connection>? {
        guard let id = places.forApp() else {
            refuseApp(on: shared.heard, connection)
            return nil
        }
        let app = places.take(
            Connection(
                id: id, channel: shared.heard, on: connection.pointee, now: time.second))
        delivery.open(id.index)
        shared.attach(id.index, channel: shared.heard)
        return app
    }

    /// Refuses an app for want of a place. The frames go through the connection's own queue, in a single piece.
    private mutating func refuseApp(
        on channel: UInt8, _ connection: UnsafeMutablePointer<Connection>
    ) {
        let refusal = MartletError(
            .resourceExhausted, "The broker has no room for more apps; connect again.",
            retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds)
        let bytes = output.encode([
            .channel(ChannelSelection(number: channel)),
            .error(ErrorFrame(correlation: 0, error: refusal)), .detached(Detached()),
            .channel(ChannelSelection(number: 0)),
        ])
        delivery.reserve(bytes.count, .direct).copyBytes(from: bytes)
        if !delivery.send(bytes.count, to: connection.pointee.id.index) { close(connection) }
    }

    // MARK: How apps end

    /// Stops messages to a session. Outstanding requests are still answered.
    mutating func leave(_ connection: UnsafeMutablePointer<Connection>) {
        delivery.detach(connection.pointee.id.index, now: context.clock())
        connection.pointee.phase = .finishing
        connection.pointee.since = time.second
        if !connection.pointee.isApp { transport.pauseReceive(connection.pointee.id) }
        closeIfDone(connection)
    }

    /// Tells an app of its end, and frees the channel.
    mutating func endApp(
        _ app: UnsafeMutablePointer<Connection>, _ shared: SharedConnection
    ) {
        guard app.pointee.phase != .closed else { return }
        send(.detached(Detached()), to: app)
        guard app.pointee.phase != .closed else { return }
        app.pointee.phase = .lingering
        shared.free(app.pointee.id.index)
    }

    /// Ends all apps with their connection.
    mutating func endApps(_ shared: SharedConnection) {
        for app in shared.apps {
            delivery.detach(app.place, now: context.clock())
            places[app.place].pointee.phase = .lingering
            places.endedApps.append(app.place)
        }
    }

    /// Ends an app without outstanding requests, or a connection without apps and without unsent frames.
    mutating func closeIfDone(
        _ connection: UnsafeMutablePointer<Connection>, _ shared: SharedConnection
    ) {
        guard connection.pointee.isApp else {
            if shared.apps.isEmpty { lingerIfDone(connection) }
            return
        }
        if connection.pointee.phase == .finishing, connection.pointee.outstanding == 0 {
            endApp(connection, shared)
        }
        if connection.pointee.phase == .lingering {
            places.endedApps.append(connection.pointee.id.index)
        }
    }

    /// Gives back the places of ended apps with empty queues. Called between events and at the end of a turn, when no
    /// pointer to an app is in use.
    mutating func releaseApps() {
        var ended: [UInt32] = []
        swap(&ended, &places.endedApps)
        for place in ended {
            let app = places[place]
            guard places.isTaken(place), app.pointee.phase == .lingering,
                delivery.queuedBytes(place) == 0, let shared = app.pointee.shared
            else { continue }
            let connection = carrier(of: app)
            connection.pointee.outstanding -= app.pointee.outstanding
            connection.pointee.requestBytes -= app.pointee.requestBytes
            shared.remove(
                place, wasWelcomed: app.pointee.principal.holder != nil, now: time.second)
            release(place)
            if shared.refusedCount > SharedConnection.refusedMax, connection.pointee.phase == .open
            {
                fail(
                    connection,
                    MartletError(
                        .resourceExhausted,
                        "Too many apps of this connection were refused one after another.",
                        retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds))
            }
            resumeIfDrained(connection)
            closeIfDone(connection)
        }
    }

    /// Ends an app without a send in flight, and gives back the place.
    mutating func release(_ place: UInt32) {
        delivery.close(place, now: context.clock())
        newcomerEnded(place)
        silence.end(place)
        places.free(place)
    }

    // MARK: Sending

    /// Starts the send of a queue of a connection of several apps, unless another queue is being sent.
    mutating func send(
        _ connection: UnsafeMutablePointer<Connection>, _ shared: SharedConnection,
        into free: UnsafeMutableBufferPointer<iovec>
    ) {
        let index = connection.pointee.id.index
        connection.pointee.sendBegan = time.second
        guard shared.begin(index, channel: connection.pointee.channel) else { return }
        var count = 0
        if let prefix = shared.prefix(output.prefixes) {
            free[0] = prefix
            count = 1
        }
        count += delivery.gather(
            index, into: UnsafeMutableBufferPointer(rebasing: free[count...]))
        output.use(count)
        transport.send(
            shared.connection, vectors: UnsafeBufferPointer(rebasing: free[..<count]))
    }

    /// Handles the end of a send of a connection of several apps.
    mutating func sent(_ shared: SharedConnection, byteCount: Int) {
        guard let place = shared.sending else { return }
        let (left, waiting) = shared.sent(
            byteCount: byteCount, inFlightBytes: delivery.inFlightBytes(place))
        // Waiting queues go before the queue of this send.
        for other in waiting { delivery.sendAgain(other) }
        delivery.sent(place, byteCount: left)
        if left > 0 { newcomerLeft(place) }
        closeIfDone(places[place])
    }

    // MARK: Time

    /// Tells the store daily of a lasting app. Silence and deadlines are checked for the whole connection.
    mutating func tickApp(_ app: UnsafeMutablePointer<Connection>, _ now: UInt32) {
        guard app.pointee.phase == .open, app.pointee.isSeenDue(now) else { return }
        tellConnected(app)
    }

    /// Whether an app of the connection waits for its registration.
    func awaitsWelcome(_ shared: SharedConnection) -> Bool {
        shared.apps.contains { places[$0.place].pointee.phase == .awaitingWelcome }
    }

    /// Whether a connection of several apps has been without an app for longer than a handshake may take. A refused app
    /// is none.
    func isDeserted(_ connection: UnsafeMutablePointer<Connection>, _ now: UInt32) -> Bool {
        guard let shared = connection.pointee.shared else { return false }
        let hasDevice = shared.apps.contains {
            places[$0.place].pointee.principal.holder != nil
        }
        guard !hasDevice, !awaitsWelcome(shared) else { return false }
        return now &- shared.emptySince > context.configuration.handshakeSeconds
    }

    /// Whether the peer has not read its bytes since `sendBegan`.
    func isStuck(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        let index = connection.pointee.id.index
        if delivery.isSending(index) { return true }
        guard let shared = connection.pointee.shared else { return false }
        return shared.sending != nil && delivery.queuedBytes(index) > 0
    }
}

extension ClientFrame {
    /// The number in a CHANNEL frame; nil for frames of other types.
    fileprivate var channel: UInt8? {
        if case .channel(let selection) = self { selection.number } else { nil }
    }
}
