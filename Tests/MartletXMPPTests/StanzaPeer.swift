// SPDX-License-Identifier: Apache-2.0
//
// The other end of a connection, which writes and reads texts as they are: a naive app server, and hostile ones. It
// knows XML by searching for tags. Rests on NIO.

import Foundation
import Martlet
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import Testing

/// A connection over TLS, or a bare one.
final class StanzaPeer: Sendable {
    /// The connection has ended before the awaited text came.
    struct Ended: Error, CustomStringConvertible {
        var rest: String
        var description: String { "the connection ended behind: \(rest)" }
    }

    private struct State {
        var bytes: [UInt8] = []
        var hasEnded = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    /// What has come. The connection keeps it alive, and not the peer: a dropped peer closes.
    private final class Arrivals: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let state = Mutex(State())

        private func change(_ body: (inout State) -> Void) {
            let waiter = state.withLock { state in
                body(&state)
                return state.waiter.take()
            }
            waiter?.resume()
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = Array(unwrapInboundIn(data).readableBytesView)
            change { $0.bytes += bytes }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) { change { $0.hasEnded = true } }
    }

    private let arrivals: Arrivals
    private let channel: any Channel

    private init(_ arrivals: Arrivals, _ channel: any Channel) {
        self.arrivals = arrivals
        self.channel = channel
    }

    deinit { channel.close(promise: nil) }

    /// - Parameters:
    ///   - certificates: file of trusted certificates; nil: a TCP connection without TLS.
    ///   - address: the peer's own address.
    static func connect(
        port: UInt16, trusting certificates: String?, from address: String = "127.0.0.1"
    ) async throws -> StanzaPeer {
        let arrivals = Arrivals()
        let tls = try certificates.map { file in
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.trustRoots = .file(file)
            return try NIOSSLContext(configuration: configuration)
        }
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(to: try SocketAddress(ipAddress: address, port: 0))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls {
                        try pipeline.addHandler(
                            NIOSSLClientHandler(context: tls, serverHostname: "localhost"))
                    }
                    try pipeline.addHandler(arrivals)
                }
            }
            .connect(host: "127.0.0.1", port: Int(port)).get()
        return StanzaPeer(arrivals, channel)
    }

    // MARK: Writing

    func write(_ text: String) async throws { try await write(bytes: Array(text.utf8)) }

    func write(bytes: [UInt8]) async throws {
        try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
    }

    /// Breaks the connection without a word.
    func drop() async { try? await channel.close(mode: .all).get() }

    // MARK: Reading

    /// Leaves whatever comes from now on in the system's buffers.
    func stopReading() async { try? await channel.setOption(.autoRead, value: false).get() }

    /// Waits for more than `count` bytes, or the end.
    private func wait(beyond count: Int) async {
        await withCheckedContinuation { waiter in
            let mayGoOn = arrivals.state.withLock { state in
                if state.hasEnded || state.bytes.count > count { return true }
                state.waiter = waiter
                return false
            }
            if mayGoOn { waiter.resume() }
        }
    }

    /// The text up to a mark, with the mark.
    func read(until mark: String) async throws -> String {
        let mark = Array(mark.utf8)
        var searched = 0
        while true {
            let (found, count, hasEnded) = arrivals.state.withLock {
                state -> (String?, Int, Bool) in
                if state.bytes.count >= mark.count {
                    for start in searched...(state.bytes.count - mark.count)
                    where state.bytes[start] == mark[0]
                        && state.bytes[start..<(start + mark.count)].elementsEqual(mark)
                    {
                        let end = start + mark.count
                        defer { state.bytes.removeFirst(end) }
                        return (String(decoding: state.bytes[..<end], as: UTF8.self), 0, false)
                    }
                }
                return (nil, state.bytes.count, state.hasEnded)
            }
            if let found { return found }
            guard !hasEnded else { throw Ended(rest: rest) }
            searched = max(0, count - mark.count + 1)
            await wait(beyond: count)
        }
    }

    private var rest: String {
        arrivals.state.withLock { String(decoding: $0.bytes, as: UTF8.self) }
    }

    /// Whatever comes until the server ends the connection.
    func readToEnd() async -> String {
        while !arrivals.state.withLock({ $0.hasEnded }) { await wait(beyond: .max) }
        return rest
    }

    // MARK: XMPP

    static let header = """
        <?xml version="1.0"?><stream:stream to="fcm.googleapis.com" version="1.0" \
        xmlns="jabber:client" xmlns:stream="http://etherx.jabber.org/streams">
        """

    /// Opens a stream, and returns what the server offers.
    @discardableResult
    func open() async throws -> String {
        try await write(Self.header)
        return try await read(until: "</stream:features>")
    }

    static func auth(_ credential: String, mechanism: String = "PLAIN") -> String {
        """
        <auth xmlns="urn:ietf:params:xml:ns:xmpp-sasl" mechanism="\(mechanism)">\(credential)</auth>
        """
    }

    /// - Returns: the address that the server bound.
    @discardableResult
    func signIn(_ credential: String) async throws -> String {
        try await open()
        try await write(Self.auth(credential))
        _ = try await read(until: "<success xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\"/>")
        try await open()
        try await write(
            """
            <iq type="set" id="b"><bind xmlns="urn:ietf:params:xml:ns:xmpp-bind">\
            <resource>test</resource></bind></iq>
            """)
        let answer = try await read(until: "</iq>")
        return try #require(answer.firstMatch(of: /<jid>(.*)<\/jid>/)).1.description
    }

    /// Sends JSON in a message.
    func say(_ json: String, id: String = "") async throws {
        let text = json.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
        try await write(
            "<message id=\"\(id)\"><gcm xmlns=\"google:mobile:data\">\(text)</gcm></message>")
    }

    /// The JSON of the server's next message.
    func hear() async throws -> JSONValue {
        let stanza = try await read(until: "</message>")
        let content = try #require(
            stanza.firstMatch(of: /<message id=""><gcm xmlns="google:mobile:data">(.*)<\/gcm>/),
            "\(stanza)")
        return try JSONValue(parsing: Self.unescaped(String(content.1)))
    }

    /// Sends JSON, and returns the JSON of the answer.
    func ask(_ json: String) async throws -> JSONValue {
        try await say(json)
        return try await hear()
    }

    /// Acknowledges a message of the server.
    func acknowledge(_ message: JSONValue) async throws {
        let answer = JSONValue.object([
            "to": message["from"] ?? .null, "message_id": message["message_id"] ?? .null,
            "message_type": .string("ack"),
        ])
        try await say(answer.text)
    }

    /// Waits until the server has served whatever was written before.
    /// - Returns: whatever the server said before its answer.
    @discardableResult
    func ping() async throws -> String {
        let id = UUID().uuidString
        try await write("<iq type=\"get\" id=\"\(id)\"><ping xmlns=\"urn:xmpp:ping\"/></iq>")
        let mark = "<iq type=\"result\" id=\"\(id)\""
        let before = try await read(until: mark)
        _ = try await read(until: "</iq>")
        return String(before.dropLast(mark.count))
    }

    static func unescaped(_ text: String) -> String {
        text.replacing("&lt;", with: "<").replacing("&gt;", with: ">")
            .replacing("&quot;", with: "\"").replacing("&apos;", with: "'")
            .replacing("&#13;", with: "\r").replacing("&amp;", with: "&")
    }
}

extension JSONValue {
    /// The text of a member; nil for another value.
    func text(_ name: String) -> String? { self[name]?.string }
}
