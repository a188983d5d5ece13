// SPDX-License-Identifier: Apache-2.0
//
// What carries the links between nodes: TLS sockets, or a simulated network (OPS-7). Rests on NodeSocket.

package import MartletWire

/// The way to a node that did not come about.
package enum NodeLinkFailure: Error {
    /// Nothing listens at the address: the node's process is gone.
    case refused
    case failed(String)
}

/// One end of a link.
package protocol NodeCarrier {
    /// Serves the link until its end, on the calling thread.
    /// - Parameters:
    ///   - secret: known to the nodes alone.
    ///   - opened: called when the link stands.
    ///   - tick: called after each wait, at least every 100 ms. False ends the link.
    ///   - received: called with each frame. False ends the link.
    /// - Returns: the reason for the end.
    func serve(
        secret: [UInt8], isServer: Bool, _ outbox: LinkOutbox, opened: () -> Void,
        tick: () -> Bool, received: (NodeFrame) -> Bool
    ) -> String
}

/// Makes links to other nodes. Called on the thread that serves the link.
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

    /// - Parameter descriptor: the socket. The carrier closes it.
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
