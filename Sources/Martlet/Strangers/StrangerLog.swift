// SPDX-License-Identifier: Apache-2.0
//
// What a loop does to strangers leaves few lines in the log, however much strangers do: events are counted, and the tick
// of the loop writes a line for each kind of event whose interval is over. Rests on PeerAddress.

import MartletBase

/// Counts events with strangers until their next line in the log.
struct StrangerLog {
    enum Event: Int, CaseIterable {
        /// A proxy's connection began without a header.
        case wrongProxyHeader
        /// A connection without HELLO ended, because places were scarce.
        case placeFreed
        /// A TLS handshake ended, because its peer was silent and others waited.
        case handshakeEnded

        var message: String {
            switch self {
            case .wrongProxyHeader: "a proxy did not name its client by the PROXY protocol"
            case .placeFreed: "places are scarce: a connection without HELLO was ended"
            case .handshakeEnded:
                "a TLS handshake whose peer was silent was ended, because others waited"
            }
        }

        /// Seconds between two lines.
        var seconds: UInt32 {
            switch self {
            case .wrongProxyHeader: 1
            case .placeFreed, .handshakeEnded: 60
            }
        }
    }

    struct Line {
        let event: Event
        /// Events since the line before.
        let count: Int
        /// The address of the last event.
        let address: PeerAddress
    }

    private struct Tally {
        var count = 0
        var address = PeerAddress.loopback
        /// The second of the next line.
        var due: UInt32 = 0
    }

    private var tallies = Array(repeating: Tally(), count: Event.allCases.count)

    mutating func note(_ event: Event, from address: PeerAddress, count: Int = 1) {
        tallies[event.rawValue].count += count
        tallies[event.rawValue].address = address
    }

    /// The lines that are due. Called once a second.
    /// - Parameter now: seconds of the loop's clock.
    mutating func lines(at now: UInt32) -> [Line] {
        var lines: [Line] = []
        for event in Event.allCases {
            let tally = tallies[event.rawValue]
            guard tally.count > 0, now >= tally.due else { continue }
            tallies[event.rawValue] = Tally(due: now + event.seconds)
            lines.append(Line(event: event, count: tally.count, address: tally.address))
        }
        return lines
    }
}
