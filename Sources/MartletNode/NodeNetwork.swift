// SPDX-License-Identifier: Apache-2.0
//
// What links between nodes run over: TLS sockets, or a simulated network (OPS-7). Rests on NodeSocket.

package import MartletCluster
package import MartletWire

/// Why a node can't be reached.
package enum NodeLinkFailure: Error {
    /// Nothing listens there: the node's process is gone.
    case refused
    case failed(String)
}

/// One end of a link.
package protocol NodeCarrier {
    /// Serves the link until it ends, on the calling thread.
    /// - Parameters:
    ///   - secret: known only to the nodes.
    ///   - opened: called when the link is open.
    ///   - tick: called after each wait, at least every 100 ms. Ends the link by returning false.
    ///   - received: called with each frame. Ends the link by returning false.
    /// - Returns: why it ended.
    func serve(
        secret: [UInt8], isServer: Bool, _ outbox: LinkOutbox, opened: () -> Void,
        tick: () -> Bool, received: (NodeFrame) -> Bool
    ) -> String
}

/// Makes links to other nodes. Called on the thread that will serve the link.
package protocol NodeNetwork: Sendable {
    func makeOutbox(limit: Int) -> LinkOutbox
    func connect(to address: NodeAddress) throws(NodeLinkFailure) -> any NodeCarrier
}

/// Links over sockets.
struct SocketNetwork: NodeNetwork {
    func makeOutbox(limit: Int) -> LinkOutbox { LinkOutbox(limit: limit) }

    func connect(to address: NodeAddress) throws(NodeLinkFailure) -> any NodeCarrier {
        SocketCarrier(try NodeSocket.connect(to: address))
    }
}

/// One end of a link over a socket.
final class SocketCarrier: NodeCarrier {
    private let socket: NodeSocket

    /// - Parameter descriptor: the socket, which the carrier will close.
    init(_ descriptor: Int32) { socket = NodeSocket(descriptor: descriptor) }

    func serve(
        secret: [UInt8], isServer: Bool, _ outbox: LinkOutbox, opened: () -> Void,
        tick: () -> Bool, received: (NodeFrame) -> Bool
    ) -> String {
        socket.serve(
            secret: secret, isServer: isServer, outbox, opened: opened, tick: tick,
            received: received)
    }
}
