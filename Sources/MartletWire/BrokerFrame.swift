// SPDX-License-Identifier: Apache-2.0
//
// `BrokerFrame`: one value for every frame type that the broker sends to a client. Rests on the typed frames.

/// A frame from the broker to a client.
public enum BrokerFrame: Sendable, Hashable {
    case welcome(Welcome)
    case ping(Ping)
    case pong(Pong)
    case error(ErrorFrame)
    case draining(Draining)
    case done(Done)
    case deliver(Deliver)
    case topicResult(TopicResult)
    case accepted(Accepted)
    case audienceResult(AudienceResult)
    case explanation(Explanation)
    case topicPage(TopicPage)
    case tokenPage(TokenPage)
    case project(ProjectResult)
    case projectPage(ProjectPage)
    case key(KeyResult)
    case keyPage(KeyPage)
    case confirmed(Confirmed)
    case deleted(Deleted)
    case rotated(Rotated)
    case cancelled(Cancelled)
    case receiptEvent(ReceiptEvent)
    case fanoutPage(FanoutPage)
    case statusResult(StatusResult)
    case quotaList(QuotaList)
    case upstreamAccepted(UpstreamAccepted)
    case upstreamMessage(UpstreamDelivery)
    case group(GroupResult)
    case groupPage(GroupPage)
    case groupAccepted(GroupAccepted)
    case multicastResult(MulticastResult)
    case reportResult(ReportResult)
    case dayPage(DayPage)
    case channel(ChannelSelection)
    case detached(Detached)
    case serviceAccountPage(ServiceAccountPage)

    package var type: FrameType {
        switch self {
        case .welcome(let frame): frame.type
        case .ping(let frame): frame.type
        case .pong(let frame): frame.type
        case .error(let frame): frame.type
        case .draining(let frame): frame.type
        case .done(let frame): frame.type
        case .deliver(let frame): frame.type
        case .topicResult(let frame): frame.type
        case .accepted(let frame): frame.type
        case .audienceResult(let frame): frame.type
        case .explanation(let frame): frame.type
        case .topicPage(let frame): frame.type
        case .tokenPage(let frame): frame.type
        case .project(let frame): frame.type
        case .projectPage(let frame): frame.type
        case .key(let frame): frame.type
        case .keyPage(let frame): frame.type
        case .confirmed(let frame): frame.type
        case .deleted(let frame): frame.type
        case .rotated(let frame): frame.type
        case .cancelled(let frame): frame.type
        case .receiptEvent(let frame): frame.type
        case .fanoutPage(let frame): frame.type
        case .statusResult(let frame): frame.type
        case .quotaList(let frame): frame.type
        case .upstreamAccepted(let frame): frame.type
        case .upstreamMessage(let frame): frame.type
        case .group(let frame): frame.type
        case .groupPage(let frame): frame.type
        case .groupAccepted(let frame): frame.type
        case .multicastResult(let frame): frame.type
        case .reportResult(let frame): frame.type
        case .dayPage(let frame): frame.type
        case .channel(let frame): frame.type
        case .detached(let frame): frame.type
        case .serviceAccountPage(let frame): frame.type
        }
    }

    /// Number that ties an answer to its request; nil for frames without a correlation.
    public var correlation: UInt32? {
        switch self {
        case .welcome, .ping, .pong, .draining, .deliver, .confirmed, .deleted, .receiptEvent,
            .upstreamMessage, .channel, .detached:
            nil
        case .error(let frame): frame.correlation
        case .done(let frame): frame.correlation
        case .topicResult(let frame): frame.correlation
        case .accepted(let frame): frame.correlation
        case .audienceResult(let frame): frame.correlation
        case .explanation(let frame): frame.correlation
        case .topicPage(let frame): frame.correlation
        case .tokenPage(let frame): frame.correlation
        case .project(let frame): frame.correlation
        case .projectPage(let frame): frame.correlation
        case .key(let frame): frame.correlation
        case .keyPage(let frame): frame.correlation
        case .rotated(let frame): frame.correlation
        case .cancelled(let frame): frame.correlation
        case .fanoutPage(let frame): frame.correlation
        case .statusResult(let frame): frame.correlation
        case .quotaList(let frame): frame.correlation
        case .upstreamAccepted(let frame): frame.correlation
        case .group(let frame): frame.correlation
        case .groupPage(let frame): frame.correlation
        case .groupAccepted(let frame): frame.correlation
        case .multicastResult(let frame): frame.correlation
        case .reportResult(let frame): frame.correlation
        case .dayPage(let frame): frame.correlation
        case .serviceAccountPage(let frame): frame.correlation
        }
    }

    /// Appends the whole frame to the writer: length, type and body.
    public func encode(into writer: inout WireWriter) {
        switch self {
        case .welcome(let frame): frame.encode(into: &writer)
        case .ping(let frame): frame.encode(into: &writer)
        case .pong(let frame): frame.encode(into: &writer)
        case .error(let frame): frame.encode(into: &writer)
        case .draining(let frame): frame.encode(into: &writer)
        case .done(let frame): frame.encode(into: &writer)
        case .deliver(let frame): frame.encode(into: &writer)
        case .topicResult(let frame): frame.encode(into: &writer)
        case .accepted(let frame): frame.encode(into: &writer)
        case .audienceResult(let frame): frame.encode(into: &writer)
        case .explanation(let frame): frame.encode(into: &writer)
        case .topicPage(let frame): frame.encode(into: &writer)
        case .tokenPage(let frame): frame.encode(into: &writer)
        case .project(let frame): frame.encode(into: &writer)
        case .projectPage(let frame): frame.encode(into: &writer)
        case .key(let frame): frame.encode(into: &writer)
        case .keyPage(let frame): frame.encode(into: &writer)
        case .confirmed(let frame): frame.encode(into: &writer)
        case .deleted(let frame): frame.encode(into: &writer)
        case .rotated(let frame): frame.encode(into: &writer)
        case .cancelled(let frame): frame.encode(into: &writer)
        case .receiptEvent(let frame): frame.encode(into: &writer)
        case .fanoutPage(let frame): frame.encode(into: &writer)
        case .statusResult(let frame): frame.encode(into: &writer)
        case .quotaList(let frame): frame.encode(into: &writer)
        case .upstreamAccepted(let frame): frame.encode(into: &writer)
        case .upstreamMessage(let frame): frame.encode(into: &writer)
        case .group(let frame): frame.encode(into: &writer)
        case .groupPage(let frame): frame.encode(into: &writer)
        case .groupAccepted(let frame): frame.encode(into: &writer)
        case .multicastResult(let frame): frame.encode(into: &writer)
        case .reportResult(let frame): frame.encode(into: &writer)
        case .dayPage(let frame): frame.encode(into: &writer)
        case .channel(let frame): frame.encode(into: &writer)
        case .detached(let frame): frame.encode(into: &writer)
        case .serviceAccountPage(let frame): frame.encode(into: &writer)
        }
    }

    /// Decodes the body of a frame of type `number`.
    /// - Throws: `WireError` if the broker sends no frame of type `number`, or if the body is malformed, too short
    ///   or too long for the type.
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
        case .welcome: .welcome(try Welcome(from: &reader))
        case .ping: .ping(try Ping(from: &reader))
        case .pong: .pong(try Pong(from: &reader))
        case .error: .error(try ErrorFrame(from: &reader))
        case .draining: .draining(try Draining(from: &reader))
        case .done: .done(try Done(from: &reader))
        case .deliver: .deliver(try Deliver(from: &reader))
        case .topicResult: .topicResult(try TopicResult(from: &reader))
        case .accepted: .accepted(try Accepted(from: &reader))
        case .audienceResult: .audienceResult(try AudienceResult(from: &reader))
        case .explanation: .explanation(try Explanation(from: &reader))
        case .topicPage: .topicPage(try TopicPage(from: &reader))
        case .tokenPage: .tokenPage(try TokenPage(from: &reader))
        case .project: .project(try ProjectResult(from: &reader))
        case .projectPage: .projectPage(try ProjectPage(from: &reader))
        case .key: .key(try KeyResult(from: &reader))
        case .keyPage: .keyPage(try KeyPage(from: &reader))
        case .confirmed: .confirmed(try Confirmed(from: &reader))
        case .deleted: .deleted(try Deleted(from: &reader))
        case .rotated: .rotated(try Rotated(from: &reader))
        case .cancelled: .cancelled(try Cancelled(from: &reader))
        case .receiptEvent: .receiptEvent(try ReceiptEvent(from: &reader))
        case .fanoutPage: .fanoutPage(try FanoutPage(from: &reader))
        case .statusResult: .statusResult(try StatusResult(from: &reader))
        case .quotaList: .quotaList(try QuotaList(from: &reader))
        case .upstreamAccepted: .upstreamAccepted(try UpstreamAccepted(from: &reader))
        case .upstreamMessage: .upstreamMessage(try UpstreamDelivery(from: &reader))
        case .group: .group(try GroupResult(from: &reader))
        case .groupPage: .groupPage(try GroupPage(from: &reader))
        case .groupAccepted: .groupAccepted(try GroupAccepted(from: &reader))
        case .multicastResult: .multicastResult(try MulticastResult(from: &reader))
        case .reportResult: .reportResult(try ReportResult(from: &reader))
        case .dayPage: .dayPage(try DayPage(from: &reader))
        case .channel: .channel(try ChannelSelection(from: &reader))
        case .detached: .detached(Detached(from: &reader))
        case .serviceAccountPage: .serviceAccountPage(try ServiceAccountPage(from: &reader))
        case .hello, .acknowledge, .subscribe, .unsubscribe, .unregister, .send, .changeTopic,
            .audience, .explain, .listTopics, .listSubscribers, .listAudience, .listInstanceTopics,
            .createProject, .listProjects, .createKey, .revokeKey, .listKeys, .deviceState,
            .receipt, .rotate, .cancel, .listenReceipts, .receiptAcknowledge, .changeProject,
            .listFanouts, .status, .quotas, .upstream, .listenUpstream, .upstreamAcknowledge,
            .unregisterToken,
            .createGroup, .changeGroup, .findGroup, .listGroups, .report, .listDays,
            .listNotReceived, .multicast, .detach,
            .createServiceAccount, .revokeServiceAccount, .listServiceAccounts:
            throw .unexpectedFrame(type)
        }
    }
}
