// SPDX-License-Identifier: Apache-2.0
//
// Frees places for newcomers when strangers hold many (NET-6). Past seven eighths of the places, connections that have been
// strangers for more than two seconds end. When only the reserve is left, strangers end at once, so that the transport can
// always accept. The address with most strangers loses its oldest one first: honest peers say HELLO at once, and lose nothing
// to an address that opens thousands of connections. Rests on PeersByAddress.

import Logging
import MartletThreads
import MartletTransport
import Synchronization

extension Loop where Kernel: ~Copyable {
    /// Seconds for which a connection keeps its place without HELLO while places are scarce.
    static var silentSecondsMax: UInt32 { 2 }
    /// Most places kept free for newcomers: the connections of two full accepts. A small table keeps a sixteenth.
    static var reservedPlacesMax: Int { 64 }

    /// Places of connections that are not about to leave.
    private var usedPlaces: Int { transport.connectionCount - places.closingCount }

    /// Whether more than seven eighths of the places are taken.
    var isScarce: Bool { usedPlaces > places.connectionsMax - places.connectionsMax / 8 }

    private var reservedPlaces: Int { min(places.connectionsMax / 16, Self.reservedPlacesMax) }

    /// Ends strangers as far as places are scarce. Called before each new connection is counted, and once a second: when
    /// all places are taken, no connection comes.
    mutating func makeRoom() {
        while isScarce, let first = strangers.arrivals.first {
            guard let connection = connection(first), let since = strangerSince(connection) else {
                strangers.arrivals.remove(first)
                continue
            }
            // Honest newcomers of one moment fill at most half of the reserve. Up to that number no stranger ends.
            let mustEnd =
                usedPlaces > places.connectionsMax - reservedPlaces
                && strangers.arrivals.count > reservedPlaces / 2
            guard mustEnd || time.second &- since > Self.silentSecondsMax else { return }
            strangers.log.note(.placeFreed, from: address(of: connection))
            context.strangers.turnAway()
            strangers.arrivals.remove(first)
            close(connection)
        }
    }

    /// The beginning of a connection without HELLO, or of a shared connection without an app; nil: the connection has
    /// shown a credential, waits for a registration, or is ending.
    private func strangerSince(_ connection: UnsafeMutablePointer<Connection>) -> UInt32? {
        switch connection.pointee.phase {
        case .hello: connection.pointee.since
        case .open: connection.pointee.shared.flatMap { awaitsWelcome($0) ? nil : $0.emptySince }
        case .awaitingWelcome, .finishing, .closing, .lingering, .closed: nil
        }
    }

    /// Writes the lines about strangers that are due. Called once a second.
    mutating func logStrangers(_ now: UInt32) {
        let ended = context.metrics.secure.crowdedOut.load(ordering: .relaxed)
        if ended != strangers.crowdedOutTold {
            let address = context.metrics.secure.crowdedFrom.withLock { $0 }
            strangers.log.note(
                .handshakeEnded, from: address, count: Int(ended - strangers.crowdedOutTold))
            strangers.crowdedOutTold = ended
        }
        for line in strangers.log.lines(at: now) {
            context.logger.warning(
                "\(line.event.message)",
                metadata: ["count": "\(line.count)", "last": "\(line.address)"])
        }
    }
}
