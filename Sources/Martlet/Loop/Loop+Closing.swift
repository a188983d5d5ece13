// SPDX-License-Identifier: Apache-2.0
//
// The end of connections, with a last frame that the peer can read. A close over unread bytes of the peer
// resets the connection, and the reset overtakes the last frames. So the loop first ends only its own side.
// Until the peer ends too, the loop drops the peer's bytes, for a bounded time and number of bytes. Rests on
// Loop.

import Logging
import MartletBase
import MartletDelivery
import MartletEngine
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

extension Loop where Kernel: ~Copyable {
    /// Sends an error, and ends the connection when the error has left.
    mutating func fail(_ connection: UnsafeMutablePointer<Connection>, _ error: MartletError) {
        guard connection.pointee.phase.isAlive else { return }
        if error.word == .protocolViolation {
            context.metrics.protocolViolations.add(1, ordering: .relaxed)
        }
        delivery.detach(connection.pointee.id.index, now: context.clock())
        leaveUpstream(connection)
        connection.pointee.phase = .closing
        connection.pointee.since = time.second
        if !connection.pointee.isApp { transport.pauseReceive(connection.pointee.id) }
        send(.error(ErrorFrame(correlation: 0, error: error)), to: connection)
        if let shared = connection.pointee.shared {
            if connection.pointee.isApp {
                endApp(connection, shared)
            } else {
                endApps(shared)
            }
        }
        closeIfDone(connection)
    }

    /// Ends a connection for an error in the service of a frame.
    mutating func fail(_ connection: UnsafeMutablePointer<Connection>, for error: any Error) {
        switch error {
        case let error as WireError: fail(connection, error.martletError)
        case let error as MartletError: fail(connection, error)
        default:
            context.logger.error("a frame could not be served", metadata: ["error": "\(error)"])
            fail(connection, MartletError(.internal, "The broker could not serve this frame."))
        }
    }

    /// Ends a connection without unsent frames, if its phase allows.
    mutating func closeIfDone(_ connection: UnsafeMutablePointer<Connection>) {
        if let shared = connection.pointee.shared {
            closeIfDone(connection, shared)
        } else {
            lingerIfDone(connection)
        }
    }

    mutating func lingerIfDone(_ connection: UnsafeMutablePointer<Connection>) {
        guard delivery.queuedBytes(connection.pointee.id.index) == 0 else { return }
        switch connection.pointee.phase {
        case .closing: linger(connection)
        case .finishing where connection.pointee.outstanding == 0: linger(connection)
        default: break
        }
    }

    /// Ends the loop's side of a connection without unsent frames, and waits for the peer's end.
    mutating func linger(_ connection: UnsafeMutablePointer<Connection>) {
        // When places are scarce, a connection without unsent frames gives up its place at once.
        guard !connection.pointee.hasEnded, ending.isDraining || !isScarce else {
            close(connection)
            return
        }
        delivery.detach(connection.pointee.id.index, now: context.clock())
        if let shared = connection.pointee.shared { endApps(shared) }
        connection.pointee.phase = .lingering
        connection.pointee.since = time.second
        connection.pointee.isPaused = false
        connection.pointee.backlog = []
        transport.endSending(connection.pointee.id)
        transport.resumeReceive(connection.pointee.id)
    }

    /// Drops bytes of a lingering connection, up to a bound.
    mutating func linger(_ connection: UnsafeMutablePointer<Connection>, over byteCount: Int) {
        connection.pointee.lingerBytesLeft -= byteCount
        if connection.pointee.lingerBytesLeft <= 0 { close(connection) }
    }

    /// Closes a connection at once. For an app the whole connection is closed.
    mutating func close(_ one: UnsafeMutablePointer<Connection>) {
        let connection = carrier(of: one)
        guard connection.pointee.phase != .closed else { return }
        leaveUpstream(connection)
        connection.pointee.phase = .closed
        delivery.detach(connection.pointee.id.index, now: context.clock())
        for app in connection.pointee.shared?.apps ?? [] {
            places[app.place].pointee.phase = .closed
            delivery.detach(app.place, now: context.clock())
        }
        places.closingCount += 1
        transport.close(connection.pointee.id)
    }

    // MARK: Draining

    mutating func beginDraining() {
        ending.drain(time.second)
        transport.stopAccepting()
        let delay = context.configuration.reconnectDelayMilliseconds
        for index in places.taken {
            let connection = places[index]
            guard connection.pointee.phase.isAlive, !connection.pointee.isApp else { continue }
            send(.draining(Draining(reconnectDelayMilliseconds: delay)), to: connection)
        }
    }

    /// Goes on with the end of all connections.
    /// - Returns: whether no connection is left, or the end has taken too long.
    mutating func goOnDraining(_ now: UInt32) -> Bool {
        let isLate = ending.isLate(now)
        let milliseconds = context.monotonic()
        var isEmpty = true
        for index in places.taken {
            isEmpty = false
            let connection = places[index]
            if connection.pointee.isApp { continue }
            if isLate {
                close(connection)
            } else if connection.pointee.phase == .lingering {
                if milliseconds >= ending.lingerUntil { close(connection) }
            } else if connection.pointee.outstanding == 0,
                queuedBytes(connection) == 0
            {
                ending.lingerUntil = milliseconds + Connection.drainLingerMilliseconds
                linger(connection)
            }
        }
        return isEmpty || ending.isLate(now, spans: 2)
    }
}
