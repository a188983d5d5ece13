// SPDX-License-Identifier: Apache-2.0
//
// The format versions of links between nodes (OPS-7). HELLO says which formats a node understands, and nobody sends a frame
// that the other side doesn't. So nodes of two versions work together while a cluster is upgraded. Rests on NodeHello.

import MartletCluster
import MartletStore
package import MartletWire

/// Formats of links. Each includes the frames of those before, and the forwarded commands of `ForwardingFormat`.
package enum LinkFormat {
    /// The reports ENDED and NODE_FIGURES. Commands are written as in format 1.
    private static let reports: UInt8 = 2
    /// The events of watched projects, NODE_WATCH and NODE_EVENTS.
    private static let watches: UInt8 = 3
    /// NODE_ROW and NODE_FANOUT: rows and now-or-never messages. PONG comes after all messages from before the PING.
    private static let nowOrNeverRows: UInt8 = 4
    /// NODE_QUOTAS: the quotas that the active node counts.
    private static let quotas: UInt8 = 5
    /// ERROR on an open link: the log takes no rows.
    private static let refusals: UInt8 = 6
    /// The formats that this program understands.
    package static let readable = ForwardingFormat.readable.lowerBound...refusals
    /// The formats of rows that this program understands.
    package static let rows = UInt16(Redo.format)...UInt16(Redo.format)

    /// Whether the other node and this one understand each other's rows and commands.
    package static func isCommon(_ hello: NodeHello) -> Bool {
        hello.rowFormats.overlaps(rows) && hello.commandFormats.contains(ForwardingFormat.current)
    }

    /// Whether the other node understands and sends reports.
    static func hasReports(_ hello: NodeHello) -> Bool { hello.commandFormats.contains(reports) }

    /// Whether the other node understands and sends events of watched projects.
    static func hasWatches(_ hello: NodeHello) -> Bool { hello.commandFormats.contains(watches) }

    /// Whether the other node understands and sends rows and now-or-never messages.
    static func hasRows(_ hello: NodeHello) -> Bool {
        hello.commandFormats.contains(nowOrNeverRows)
    }

    /// Whether the other node understands that the log takes no rows.
    static func hasRefusals(_ hello: NodeHello) -> Bool { hello.commandFormats.contains(refusals) }

    /// Whether the other node understands and sends quotas.
    static func hasQuotas(_ hello: NodeHello) -> Bool { hello.commandFormats.contains(quotas) }
}
