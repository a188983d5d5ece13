// SPDX-License-Identifier: Apache-2.0
//
// Where other nodes reach a node (OPS-7). Rests on MartletBase.

package import MartletBase

/// A node's HOST:PORT.
package struct NodeAddress: Hashable, Sendable {
    package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// - Throws: `INVALID_ARGUMENT` unless the text is HOST:PORT or [IPv6]:PORT.
    package init(validating text: String) throws(MartletError) {
        guard let place = HostPort(text) else {
            throw MartletError(
                .invalidArgument,
                "'\(text)' is not HOST:PORT, where other nodes reach this node.",
                field: "node-address")
        }
        self.init(host: place.host, port: place.port)
    }

    package var text: String { "\(HostPort(host: host, port: port))" }
}
