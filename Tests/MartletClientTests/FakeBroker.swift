// SPDX-License-Identifier: Apache-2.0
//
// A broker that does nothing by itself: the test sees every frame a client sends, in order, and says
// what is answered. Real sockets, one process. Rests on SwiftNIO and the codec.

import MartletBase
import MartletClient
import MartletWire
import NIOCore
import NIOPosix
import Synchronization

/// First in, first out between tasks.
final class Mailbox<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var takers: [CheckedContinuation<Element, Never>] = []
    }

    private let state = Mutex(State())

    func put(_ element: Element) {
        let taker = state.withLock { state -> CheckedContinuation<Element, Never>? in
            if state.takers.isEmpty {
                state.elements.append(element)
                return nil
            }
            return state.takers.removeFirst()
        }
        taker?.resume(returning: element)
    }

    func next() async -> Element {
        await withCheckedContinuation { continuation in
            let element = state.withLock { state -> Element? in
                if state.elements.isEmpty {
                    state.takers.append(continuation)
                    return nil
                }
                return state.elements.removeFirst()
            }
            if let element { continuation.resume(returning: element) }
        }
    }
}

/// What a connection's mailbox holds.
enum Seen: Sendable, Hashable {
    case frame(ClientFrame)
    case closed
}

/// One connection as the broker sees it.
final class FakeConnection: Sendable {
    let channel: any Channel
    private let seen = Mailbox<Seen>()

    init(_ channel: any Channel) { self.channel = channel }

    func put(_ seen: Seen) { self.seen.put(seen) }

    /// The next frame, or that the client closed.
    func next() async -> Seen { await seen.next() }

    func send(_ frames: BrokerFrame...) { send(frames) }

    func send(_ frames: [BrokerFrame]) {
        var writer = WireWriter()
        for frame in frames { frame.encode(into: &writer) }
        channel.writeAndFlush(ByteBuffer(bytes: writer.bytes), promise: nil)
    }

    func close() async { try? await channel.close() }

    func fail(_ word: ErrorWord, correlation: UInt32 = 0, retryDelay: UInt32? = nil) {
        send(
            .error(
                ErrorFrame(
                    correlation: correlation,
                    error: MartletError(word, "No.", retryDelayMilliseconds: retryDelay))))
    }

    /// Reads HELLO and answers with WELCOME.
    @discardableResult
    func welcome(
        acknowledgedThrough: UInt64 = 0, token: String = "", deviceKey: String = "",
        frameBytesMax: Int? = nil
    ) async -> Hello? {
        guard case .frame(.hello(let hello)) = await next() else { return nil }
        let role = hello.role == .newDevice ? .device : hello.role
        send(
            .welcome(
                Welcome(
                    role: role, idleSeconds: 1800,
                    frameBytesMax: UInt32(frameBytesMax ?? role.frameBytesMax),
                    now: Instant(millisecondsSince1970: 0), senderID: 100,
                    acknowledgedThrough: acknowledgedThrough, token: token, deviceKey: deviceKey)))
        return hello
    }

    /// Delivers data messages with these stream IDs in one write.
    func deliver(
        _ streamIDs: some Sequence<UInt64>, valueBytes: Int = 0, wantsReceipts: Bool = false
    ) {
        send(
            streamIDs.map { streamID in
                var body = WireWriter()
                Message(data: ["n": "\(streamID)", "v": String(repeating: "x", count: valueBytes)])
                    .encode(into: &body)
                return .deliver(
                    Deliver(
                        streamID: streamID, accepted: Instant(millisecondsSince1970: 1),
                        expires: Instant(millisecondsSince1970: 2), kind: .topic, priority: .high,
                        from: "/topics/t", message: body.bytes,
                        options: MessageOptions(wantsReceipts: wantsReceipts)))
            })
    }

    /// The `through` of the next frame, which must be an acknowledgement.
    func acknowledgement() async -> UInt64? {
        guard case .frame(.acknowledge(let acknowledge)) = await next() else { return nil }
        return acknowledge.through
    }
}

final class FakeBroker: Sendable {
    private let channel: any Channel
    private let accepted: Mailbox<FakeConnection>

    init() async throws {
        let accepted = Mailbox<FakeConnection>()
        self.accepted = accepted
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let connection = FakeConnection(channel)
                    try channel.pipeline.syncOperations.addHandler(FakeHandler(connection))
                    accepted.put(connection)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    var port: Int { channel.localAddress?.port ?? 0 }

    /// The next connection of a client.
    func connection() async -> FakeConnection { await accepted.next() }

    func close() async { try? await channel.close() }

    /// Runs a test with a broker and closes it afterwards.
    static func run(_ test: (FakeBroker) async throws -> Void) async throws {
        let broker = try await FakeBroker()
        do {
            try await test(broker)
        } catch {
            await broker.close()
            throw error
        }
        await broker.close()
    }
}

private final class FakeHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: FakeConnection
    private var splitter = FrameSplitter(frameBytesMax: Limits.senderFrameBytesMax)

    init(_ connection: FakeConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        do {
            try splitter.split(buffer.readableBytesSpan) {
                (type, body) throws(WireError) in
                connection.put(.frame(try ClientFrame.decode(type: type, body: body)))
            }
        } catch {
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { connection.put(.closed) }
}

/// Pauses that a test does not notice.
let quickBackoff = Backoff(base: .milliseconds(1), cap: .milliseconds(4))

/// The error that an operation throws.
func refusal(_ operation: () async throws -> Void) async -> MartletError? {
    do {
        try await operation()
        return nil
    } catch {
        return error as? MartletError
    }
}
