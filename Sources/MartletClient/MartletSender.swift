// SPDX-License-Identifier: Apache-2.0
//
// A project's sender on a connection. Calls may come from any task, any number at a time. A refusal is thrown as
// `MartletError`. The requests with one answer are extensions of `SenderInterface`. Rests on `RequestClient`.

public import MartletBase
public import MartletWire

/// A sender of one project.
public final class MartletSender: SenderInterface {
    /// `MartletError`, or `CancellationError` for a cancelled task.
    public typealias Failure = any Error

    /// ID of the project for which the sender sends.
    public let projectID: String
    let client: RequestClient

    init(projectID: String, client: RequestClient) {
        self.projectID = projectID
        self.client = client
    }

    /// Makes a sender. The first request opens the connection.
    /// - Parameter serverKey: a server key or an access token; empty if the client's certificate stands for the sender.
    public convenience init(
        host: String, port: Int = Limits.defaultPort, projectID: String, serverKey: String,
        options: ClientOptions = ClientOptions()
    ) {
        self.init(
            projectID: projectID,
            client: options.client(
                host: host, port: port,
                hello: .sender(projectID: projectID, serverKey: serverKey)))
    }

    /// Makes a sender and connects at once, so that a wrong key is reported at once.
    public static func connect(
        host: String, port: Int = Limits.defaultPort, projectID: String, serverKey: String,
        options: ClientOptions = ClientOptions()
    ) async throws -> MartletSender {
        let sender = MartletSender(
            host: host, port: port, projectID: projectID, serverKey: serverKey, options: options)
        try await sender.connect()
        return sender
    }

    /// The way of the requests on the sender's connection.
    public var requests: RequestPort<any Error> { RequestPort(client) }

    /// Connects unless the connection is open.
    /// - Throws: the broker's refusal, such as `UNAUTHENTICATED` for a wrong key.
    public func connect() async throws { _ = try await client.connect() }

    /// Closes the connection for good. Requests that wait for an answer fail.
    public func close() async { await client.close() }

    // MARK: Messages

    /// Sends a message. When the call returns, the message is on disk, unless its time to live is 0. After
    /// UNAVAILABLE the message may or may not be on disk; with an idempotency key a repeated send does no harm.
    @discardableResult
    public func send(_ outgoing: OutgoingMessage) async throws -> SendReceipt {
        try await send(encoded: try outgoing.message.encoded(), as: outgoing)
    }

    /// RCP-1: receipts of the messages sent with `wantsReceipts`, from the oldest receipt that no sender has taken.
    /// Asking for the next receipt marks the previous receipt as taken; receipts not taken come again. Each
    /// iteration has its own connection and connects again after a loss. Two iterations at a time both get all
    /// receipts. An iteration throws an error that another attempt cannot change.
    public var receipts: Receipts { Receipts(projectID: projectID, client: client) }

    /// UPS-1: messages of the project's devices, from the oldest message that no sender has taken. The broker gives
    /// a message to one sender at a time. Asking for the next message marks the previous message as taken. A
    /// message that is not taken when the connection ends, or within 60 seconds, goes to another sender or comes
    /// again. Each iteration has its own connection, connects again after a loss, and remembers at least the last
    /// 1000 numbers to drop repeated messages. An iteration throws an error that another attempt cannot change.
    public var upstreamMessages: UpstreamMessages { UpstreamMessages(client: client) }

    /// Sends an encoded message. Useful for sending equal bytes often.
    @discardableResult
    public func send(
        encoded message: [UInt8], to target: MessageTarget, timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority? = nil, validateOnly: Bool = false
    ) async throws -> SendReceipt {
        try await send(
            encoded: message,
            as: OutgoingMessage(
                to: target, Message(), timeToLiveSeconds: timeToLiveSeconds, priority: priority,
                validateOnly: validateOnly))
    }

    /// Sends the bytes with the options of `options`, whose own message is ignored.
    @discardableResult
    public func send(
        encoded message: [UInt8], as options: OutgoingMessage
    ) async throws -> SendReceipt {
        let request = try options.request(message: message, projectID: projectID)
        let answer = try await client.request { correlation in
            var request = request
            request.correlation = correlation
            return .send(request)
        }
        let accepted: Accepted
        var tokens: TokenResults?
        switch answer {
        case .accepted(let plain): accepted = plain
        case .groupAccepted(let group):
            accepted = group.accepted
            tokens = TokenResults(group)
        case .multicastResult(let multicast):
            accepted = multicast.accepted
            tokens = TokenResults(multicast, of: options.target)
        default: throw unexpected(answer)
        }
        return SendReceipt(accepted, tokens: tokens, projectID: projectID)
    }

    // MARK: Streams

    /// Takes receipts one by one: see `receipts`.
    public func takeReceipts(_ body: @Sendable (DeliveryReceipt) async throws -> Bool) async throws
    {
        var receipts = receipts.makeAsyncIterator()
        while let receipt = try await receipts.next() {
            guard try await body(receipt) else { return await receipts.take() }
        }
    }

    /// Takes messages of devices one by one: see `upstreamMessages`.
    public func takeUpstreamMessages(
        _ body: @Sendable (DeviceMessage) async throws -> Bool
    ) async throws {
        var messages = upstreamMessages.makeAsyncIterator()
        while let message = try await messages.next() {
            guard try await body(message) else { return await messages.take() }
        }
    }
}

/// The error for an answer of a frame type that does not fit the request.
func unexpected(_ frame: BrokerFrame) -> MartletError {
    MartletError(.protocolViolation, "The broker answered with an unexpected \(frame.type).")
}
