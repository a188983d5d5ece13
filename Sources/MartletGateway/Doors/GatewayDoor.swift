// SPDX-License-Identifier: Apache-2.0
//
// A further interface behind the gateway's port. A door has routes that judge their callers by credentials of their
// own, and may take over connections that ask for a WebSocket. The gateway keeps all bounds on requests and
// connections. Rests on Route and NIO.

package import CoreMetrics
import Martlet
package import NIOCore

/// An interface beside those for SDKs, in the gateway's server.
package protocol GatewayDoor: Sendable {
    /// Shows the door's own metrics. Called once, before all other calls.
    func begin(with metrics: any MetricsFactory)

    /// Routes of the door. Their paths differ from all other paths of the gateway.
    var routes: [Route] { get }

    /// GW-15: whether a request's path holds a right credential of the door, so that the request is not a stranger's.
    /// - Parameter path: as written on the request line.
    func recognises(path: String) -> Bool

    /// GW-15: whether a request's headers hold a right credential of the door, so that no request of the connection is a
    /// stranger's. Nothing is logged or counted.
    /// - Parameter header: finds a header by a name in lower case.
    func recognises(_ header: (_ name: String) -> String?) -> Bool

    /// Decides about a request for a WebSocket.
    /// - Returns: nil if the path is not the door's.
    func webSocket(for call: GatewayCall) -> WebSocketOffer?
}

extension GatewayDoor {
    package func begin(with metrics: any MetricsFactory) {}
    package func recognises(path: String) -> Bool { false }
    package func recognises(_ header: (_ name: String) -> String?) -> Bool { false }
    package func webSocket(for call: GatewayCall) -> WebSocketOffer? { nil }
}

/// A door's answer to a request for a WebSocket that it takes over.
package struct WebSocketOffer {
    /// The subprotocol named in the answer; nil: none.
    package var subprotocol: String?
    /// Longest message of the peer, in bytes.
    package var messageBytesMax: Int
    /// Makes the last handler of the connection, for frames of WebSocket. Called once, on the event loop of the channel.
    package var makeHandler: (WebSocketPeer) -> any ChannelHandler

    package init(
        subprotocol: String?, messageBytesMax: Int,
        makeHandler: @escaping (WebSocketPeer) -> any ChannelHandler
    ) {
        self.subprotocol = subprotocol
        self.messageBytesMax = messageBytesMax
        self.makeHandler = makeHandler
    }
}

/// The other end of a WebSocket.
package struct WebSocketPeer: Sendable {
    /// Address of the client, as proxies tell it.
    package let address: PeerAddress
    private let peer: GatewayPeer

    init(_ peer: GatewayPeer, address: PeerAddress) {
        self.peer = peer
        self.address = address
    }

    /// GW-15: notes a right credential, so that the connection does not end to make room for others.
    package func trust() { peer.trust() }

    /// REG-10: logs and counts a wrong credential, and waits if the address had too many.
    /// - Throws: `RESOURCE_EXHAUSTED` if too many refusals of the address wait already.
    package func refused(_ kind: String) async throws(MartletError) {
        try await peer.holdBack(kind, from: address)
    }
}
