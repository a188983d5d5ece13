// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: where a node is reached by the other nodes. Rests on MartletBase.

package import MartletBase

/// HOST:PORT of a node.
package struct NodeAddress: Hashable, Sendable {
    package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// - Throws: `INVALID_ARGUMENT` for a text that is not HOST:PORT or [IPv6]:PORT.
    package init(validating text: String) throws(MartletError) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let host = parts.dropLast().joined(separator: ":")
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        let bare = isBracketed ? String(host.dropFirst().dropLast()) : host
        guard let last = parts.last, parts.count >= 2, let port = UInt16(last), !bare.isEmpty,
            isBracketed || parts.count == 2
        else {
            throw MartletError(
                .invalidArgument,
                "'\(text)' is not HOST:PORT, where other nodes reach this node.",
                field: "node-address")
        }
        self.init(host: bare, port: port)
    }

    package var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
