// SPDX-License-Identifier: Apache-2.0
//
// The other end of a connection, as the bounds on strangers see it (GW-15). A peer is a stranger until one of its requests had
// a right credential. A proxy stays a stranger, because each of its requests may be another client's. Rests on PeerAddress and
// NIO.

import HTTPTypes
import Martlet
import NIOCore
import NIOSSL
import Synchronization

/// What is known of a connection's other end.
final class GatewayPeer: Sendable {
    let address: PeerAddress
    let isProxy: Bool
    let arrived = ContinuousClock.now
    private let channel: any Channel
    private let gateway: Gateway
    private let isHTTP: EventLoopPromise<Bool>
    private let becameWebSocket = Atomic<Bool>(false)
    private let hasRightCredential = Atomic<Bool>(false)
    private let hasRequested = Atomic<Bool>(false)
    private let openRequests = Atomic<Int>(0)
    /// Streams with requests of a stranger, and streams refused for their number.
    private let openStreams = Atomic<Int>(0)
    private let refusedStreams = Atomic<Int>(0)

    init(_ channel: any Channel, _ gateway: Gateway) {
        self.channel = channel
        self.gateway = gateway
        isHTTP = channel.eventLoop.makePromise()
        address = channel.remoteAddress?.ipAddress.flatMap { PeerAddress($0) } ?? .loopback
        isProxy = gateway.broker.isProxy(address)
    }

    /// Whether a request of the connection had a right credential.
    var isTrusted: Bool { hasRightCredential.load(ordering: .relaxed) }

    /// Whether a whole head of a request has come.
    var hasRequest: Bool { hasRequested.load(ordering: .relaxed) }
    /// Whether a request has no whole answer.
    var isBusy: Bool { openRequests.load(ordering: .relaxed) > 0 }

    /// Notes the head of a request.
    func requestBegan() {
        hasRequested.store(true, ordering: .relaxed)
        openRequests.add(1, ordering: .relaxed)
    }

    /// Notes answered or lost requests.
    func requestsEnded(_ count: Int) { openRequests.subtract(count, ordering: .relaxed) }

    /// Judges the head of a request.
    /// - Returns: nil for a caller with a right credential; for others the address to which the request counts.
    func stranger(of head: HTTPRequest) -> PeerAddress? {
        if isTrusted { return nil }
        let isRecognised =
            gateway.recognises { name in HTTPField.Name(name).flatMap { head.headerFields[$0] } }
            || gateway.recognises(target: head.path ?? "")
        if isRecognised {
            if !isProxy { hasRightCredential.store(true, ordering: .relaxed) }
            return nil
        }
        if let path = head.path, gateway.doors.contains(where: { $0.recognises(path: path) }) {
            return nil
        }
        guard isProxy else { return address }
        let headers = head.headerFields.map { (name: $0.name.canonicalName, value: $0.value) }
        return gateway.client(of: headers, from: address.description).flatMap { PeerAddress($0) }
            ?? address
    }

    /// Logs the failure of a handshake with the words of the TLS library. A peer that hangs up leaves no line, because
    /// checks of a port's health do so.
    func handshakeFailed(_ error: any Error) {
        let text = String(describing: error)
        guard let start = text.firstRange(of: "OPENSSL_internal:")?.upperBound else { return }
        let reason = text[start...].prefix { $0 != " " && $0 != "]" }
        gateway.noteFailedHandshake(
            reason.replacing("_", with: " ").lowercased(), from: address.description)
    }

    /// Notes a right credential of a connection without requests.
    func trust() { hasRightCredential.store(true, ordering: .relaxed) }

    /// REG-10: notes a wrong credential of a connection without requests; see `Gateway.holdBack`.
    func holdBack(_ kind: String, from address: PeerAddress) async throws(MartletError) {
        try await gateway.holdBack(kind, from: address)
    }

    /// Begins to count a message of a WebSocket that is not whole.
    /// - Returns: nil after a right credential.
    func beginMessage(from address: PeerAddress) -> StrangerMemory.Part? {
        isTrusted ? nil : gateway.strangers.begin(address) { self.end() }
    }

    // MARK: The protocol

    /// Notes that the connection speaks HTTP, has failed or has ended. Later notes have no effect.
    func speaksHTTP() { isHTTP.succeed(true) }

    /// Notes that the connection became a WebSocket with its first request.
    func speaksWebSocket() {
        becameWebSocket.store(true, ordering: .relaxed)
        isHTTP.succeed(false)
    }

    var isWebSocket: Bool { becameWebSocket.load(ordering: .relaxed) }

    /// Waits for the first request or the end of the connection.
    /// - Returns: false for a WebSocket.
    func waitForHTTP() async -> Bool { (try? await isHTTP.futureResult.get()) ?? true }

    // MARK: Streams of HTTP/2

    /// Counts a stream of a stranger.
    /// - Returns: false if the connection has too many; the stream is not counted.
    func openStream() -> Bool {
        if isProxy { return true }
        guard openStreams.load(ordering: .relaxed) < Limits.httpStrangerStreamsMax else {
            return false
        }
        openStreams.add(1, ordering: .relaxed)
        return true
    }

    /// Notes the end of a counted stream.
    func closeStream() {
        if !isProxy { openStreams.subtract(1, ordering: .relaxed) }
    }

    /// Counts a refused stream, and ends a connection with too many.
    func refusedStream() {
        turnAway(1)
        let count = refusedStreams.add(1, ordering: .relaxed).newValue
        if count > Limits.httpRefusedStreamsMax, !isProxy { end() }
    }

    /// Counts strangers that were refused, or made room.
    func turnAway(_ count: Int) { gateway.strangers.turnAway(count) }

    // MARK: The end

    /// Ends the connection at once. With TLS a usual close waits for the peer's answer.
    func end() {
        let channel = channel
        channel.eventLoop.execute {
            let pipeline = channel.pipeline.syncOperations
            if let tls = try? pipeline.context(handlerType: NIOSSLServerHandler.self) {
                tls.close(promise: nil)
            } else {
                channel.close(promise: nil)
            }
        }
    }
}
