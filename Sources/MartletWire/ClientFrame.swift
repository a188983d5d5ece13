// SPDX-License-Identifier: Apache-2.0
//
// `ClientFrame`: one value for every frame type that a client sends to the broker. The codec accepts all of them;
// the broker decides whether the connection's role and state allow a frame. Rests on the typed frames.

import MartletBase

/// A frame from a client to the broker.
public enum ClientFrame: Sendable, Hashable {
    case question(QuestionFrame)
    case hello(Hello)
    case ping(Ping)
    case pong(Pong)
    case acknowledge(Acknowledge)
    case deviceTopics(DeviceTopicsRequest)
    case unregister(UnregisterRequest)
    case send(SendRequest)
    case changeTopic(ChangeTopicRequest)
    case createProject(CreateProjectRequest)
    case createKey(CreateKeyRequest)
    case revokeKey(RevokeKeyRequest)
    case deviceState(DeviceStateReport)
    case receipt(ReceiptRequest)
    case rotate(RotateRequest)
    case cancel(CancelRequest)
    case unregisterToken(UnregisterTokenRequest)
    case listenReceipts(ListenReceiptsRequest)
    case receiptAcknowledge(ReceiptAcknowledge)
    case changeProject(ChangeProjectRequest)
    case quotas(QuotasRequest)
    case upstream(UpstreamRequest)
    case listenUpstream(ListenUpstreamRequest)
    case upstreamAcknowledge(UpstreamAcknowledge)
    case createGroup(CreateGroupRequest)
    case changeGroup(ChangeGroupRequest)
    case channel(ChannelSelection)
    case detach(Detach)
    case createServiceAccount(CreateServiceAccountRequest)
    case revokeServiceAccount(RevokeServiceAccountRequest)

    package var type: FrameType {
        switch self {
        case .question(let frame): frame.type
        case .hello(let frame): frame.type
        case .ping(let frame): frame.type
        case .pong(let frame): frame.type
        case .acknowledge(let frame): frame.type
        case .deviceTopics(let frame): frame.type
        case .unregister(let frame): frame.type
        case .send(let frame): frame.type
        case .changeTopic(let frame): frame.type
        case .createProject(let frame): frame.type
        case .createKey(let frame): frame.type
        case .revokeKey(let frame): frame.type
        case .deviceState(let frame): frame.type
        case .receipt(let frame): frame.type
        case .rotate(let frame): frame.type
        case .cancel(let frame): frame.type
        case .unregisterToken(let frame): frame.type
        case .listenReceipts(let frame): frame.type
        case .receiptAcknowledge(let frame): frame.type
        case .changeProject(let frame): frame.type
        case .quotas(let frame): frame.type
        case .upstream(let frame): frame.type
        case .listenUpstream(let frame): frame.type
        case .upstreamAcknowledge(let frame): frame.type
        case .createGroup(let frame): frame.type
        case .changeGroup(let frame): frame.type
        case .channel(let frame): frame.type
        case .detach(let frame): frame.type
        case .createServiceAccount(let frame): frame.type
        case .revokeServiceAccount(let frame): frame.type
        }
    }

    /// Number that ties an answer to its request; nil for frames without a correlation.
    public var correlation: UInt32? {
        switch self {
        case .hello, .ping, .pong, .acknowledge, .deviceState, .receiptAcknowledge,
            .upstreamAcknowledge, .channel, .detach:
            nil
        case .question(let frame): frame.correlation
        case .deviceTopics(let frame): frame.correlation
        case .unregister(let frame): frame.correlation
        case .send(let frame): frame.correlation
        case .changeTopic(let frame): frame.correlation
        case .createProject(let frame): frame.correlation
        case .createKey(let frame): frame.correlation
        case .revokeKey(let frame): frame.correlation
        case .receipt(let frame): frame.correlation
        case .rotate(let frame): frame.correlation
        case .cancel(let frame): frame.correlation
        case .unregisterToken(let frame): frame.correlation
        case .listenReceipts(let frame): frame.correlation
        case .changeProject(let frame): frame.correlation
        case .quotas(let frame): frame.correlation
        case .upstream(let frame): frame.correlation
        case .listenUpstream(let frame): frame.correlation
        case .createGroup(let frame): frame.correlation
        case .changeGroup(let frame): frame.correlation
        case .createServiceAccount(let frame): frame.correlation
        case .revokeServiceAccount(let frame): frame.correlation
        }
    }

    /// Appends the whole frame to the writer: length, type and body.
    public func encode(into writer: inout WireWriter) {
        switch self {
        case .question(let frame): frame.encode(into: &writer)
        case .hello(let frame): frame.encode(into: &writer)
        case .ping(let frame): frame.encode(into: &writer)
        case .pong(let frame): frame.encode(into: &writer)
        case .acknowledge(let frame): frame.encode(into: &writer)
        case .deviceTopics(let frame): frame.encode(into: &writer)
        case .unregister(let frame): frame.encode(into: &writer)
        case .send(let frame): frame.encode(into: &writer)
        case .changeTopic(let frame): frame.encode(into: &writer)
        case .createProject(let frame): frame.encode(into: &writer)
        case .createKey(let frame): frame.encode(into: &writer)
        case .revokeKey(let frame): frame.encode(into: &writer)
        case .deviceState(let frame): frame.encode(into: &writer)
        case .receipt(let frame): frame.encode(into: &writer)
        case .rotate(let frame): frame.encode(into: &writer)
        case .cancel(let frame): frame.encode(into: &writer)
        case .unregisterToken(let frame): frame.encode(into: &writer)
        case .listenReceipts(let frame): frame.encode(into: &writer)
        case .receiptAcknowledge(let frame): frame.encode(into: &writer)
        case .changeProject(let frame): frame.encode(into: &writer)
        case .quotas(let frame): frame.encode(into: &writer)
        case .upstream(let frame): frame.encode(into: &writer)
        case .listenUpstream(let frame): frame.encode(into: &writer)
        case .upstreamAcknowledge(let frame): frame.encode(into: &writer)
        case .createGroup(let frame): frame.encode(into: &writer)
        case .changeGroup(let frame): frame.encode(into: &writer)
        case .channel(let frame): frame.encode(into: &writer)
        case .detach(let frame): frame.encode(into: &writer)
        case .createServiceAccount(let frame): frame.encode(into: &writer)
        case .revokeServiceAccount(let frame): frame.encode(into: &writer)
        }
    }

    /// Decodes the body of a frame of type `number`.
    /// - Throws: `WireError` if a client sends no frame of type `number`, or if the body is malformed, too short or
    ///   too long for the type.
    public static func decode(
        type number: UInt8, body: UnsafeRawBufferPointer
    ) throws(WireError) -> Self {
        guard let type = FrameType(rawValue: number) else { throw .unknownFrameType(number) }
        var reader = WireReader(body)
        let frame = try decode(type, from: &reader)
        try reader.finish()
        return frame
    }

    /// Decodes the body of a frame of type `number`, for callers without pointers.
    public static func decode(type number: UInt8, body: RawSpan) throws(WireError) -> Self {
        try body.withUnsafeBytes { (bytes) throws(WireError) in
            try decode(type: number, body: bytes)
        }
    }

    private static func decode(
        _ type: FrameType, from reader: inout WireReader
    ) throws(WireError) -> Self {
        switch type {
        case .hello: .hello(try Hello(from: &reader))
        case .ping: .ping(try Ping(from: &reader))
        case .pong: .pong(try Pong(from: &reader))
        case .acknowledge: .acknowledge(try Acknowledge(from: &reader))
        case .subscribe:
            .deviceTopics(try DeviceTopicsRequest(operation: .subscribe, from: &reader))
        case .unsubscribe:
            .deviceTopics(try DeviceTopicsRequest(operation: .unsubscribe, from: &reader))
        case .unregister: .unregister(try UnregisterRequest(from: &reader))
        case .send: .send(try SendRequest(isMulticast: false, from: &reader))
        case .multicast: .send(try SendRequest(isMulticast: true, from: &reader))
        case .changeTopic: .changeTopic(try ChangeTopicRequest(from: &reader))
        case .createProject: .createProject(try CreateProjectRequest(from: &reader))
        case .createKey: .createKey(try CreateKeyRequest(from: &reader))
        case .revokeKey: .revokeKey(try RevokeKeyRequest(from: &reader))
        case .deviceState: .deviceState(try DeviceStateReport(from: &reader))
        case .receipt: .receipt(try ReceiptRequest(from: &reader))
        case .rotate: .rotate(try RotateRequest(from: &reader))
        case .cancel: .cancel(try CancelRequest(from: &reader))
        case .unregisterToken: .unregisterToken(try UnregisterTokenRequest(from: &reader))
        case .listenReceipts: .listenReceipts(try ListenReceiptsRequest(from: &reader))
        case .receiptAcknowledge: .receiptAcknowledge(try ReceiptAcknowledge(from: &reader))
        case .changeProject: .changeProject(try ChangeProjectRequest(from: &reader))
        case .quotas: .quotas(try QuotasRequest(from: &reader))
        case .upstream: .upstream(try UpstreamRequest(from: &reader))
        case .listenUpstream: .listenUpstream(try ListenUpstreamRequest(from: &reader))
        case .upstreamAcknowledge: .upstreamAcknowledge(try UpstreamAcknowledge(from: &reader))
        case .createGroup: .createGroup(try CreateGroupRequest(from: &reader))
        case .changeGroup: .changeGroup(try ChangeGroupRequest(from: &reader))
        case .channel: .channel(try ChannelSelection(from: &reader))
        case .detach: .detach(Detach(from: &reader))
        case .createServiceAccount:
            .createServiceAccount(try CreateServiceAccountRequest(from: &reader))
        case .revokeServiceAccount:
            .revokeServiceAccount(try RevokeServiceAccountRequest(from: &reader))
        case .audience, .explain, .listTopics, .listSubscribers, .listAudience, .listInstanceTopics,
            .listProjects, .listKeys, .listFanouts, .status, .findGroup, .listGroups, .report,
            .listDays, .listNotReceived, .listServiceAccounts:
            .question(try QuestionFrame(type, from: &reader))
        case .welcome, .error, .draining, .done, .deliver, .accepted, .topicResult, .audienceResult,
            .explanation, .topicPage, .tokenPage, .project, .projectPage, .key, .keyPage,
            .confirmed, .deleted, .rotated, .cancelled, .receiptEvent, .fanoutPage, .statusResult,
            .quotaList, .upstreamAccepted, .upstreamMessage,
            .group, .groupPage, .groupAccepted, .multicastResult, .reportResult, .dayPage,
            .detached,
            .serviceAccountPage:
            throw .unexpectedFrame(type)
        }
    }
}
