// SPDX-License-Identifier: Apache-2.0
//
// The sender of a project in the broker's process, with the requests that `MartletSender` has on a connection. Rests on
// Broker.

public import MartletBase
import MartletThreads
public import MartletWire

/// A project's sender in the broker's process: see `Broker.sender(in:)`.
public struct BrokerSender: SenderInterface {
    /// `MartletError`: the refusal of a request, or the reason why the broker cannot serve it.
    public typealias Failure = MartletError

    private let broker: Broker
    /// ID of the sender's project.
    public let projectID: String

    init(broker: Broker, projectID: String) {
        self.broker = broker
        self.projectID = projectID
    }

    /// The way of the sender's requests to the broker.
    public var requests: RequestPort<MartletError> {
        RequestPort(EmbeddedRequests(broker: broker, projectID: projectID))
    }

    /// Sends a message: see `Broker.send(_:in:)`.
    @discardableResult
    public func send(_ message: OutgoingMessage) async throws(MartletError) -> SendReceipt {
        try await broker.send(message, in: projectID)
    }

    /// Takes receipts one by one: see `Broker.receipts(in:)`.
    public func takeReceipts(_ body: @Sendable (DeliveryReceipt) async throws -> Bool) async throws
    {
        var receipts = broker.receipts(in: projectID).makeAsyncIterator()
        while let receipt = try await receipts.next() {
            guard try await body(receipt) else { return try await receipts.take() }
        }
    }

    /// Takes messages of devices one by one: see `Broker.upstreamMessages(in:)`.
    public func takeUpstreamMessages(
        _ body: @Sendable (DeviceMessage) async throws -> Bool
    ) async throws {
        var messages = broker.upstreamMessages(in: projectID).makeAsyncIterator()
        while let message = try await messages.next() {
            guard try await body(message) else { return try await messages.take() }
        }
    }
}

extension Broker {
    /// The sender of a project, with the requests that `MartletSender` has on a connection. A project that does not
    /// exist is refused with each request.
    public func sender(in project: String) -> BrokerSender {
        BrokerSender(broker: self, projectID: project)
    }
}
