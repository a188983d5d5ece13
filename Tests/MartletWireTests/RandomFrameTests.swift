// SPDX-License-Identifier: Apache-2.0
//
// Frames with random contents say the same after a trip over the wire, many in a row and cut anywhere (NET-1). The vectors
// show each field once; this shows that none leaks into its neighbour.

import MartletBase
import MartletWire
import Testing

/// Frames with random contents.
struct RandomFrames {
    var random: SeededGenerator

    mutating func text() -> String {
        let alphabet = ["a", "Z", "0", "/", " ", "ä", "⚓", "👩‍🚀", "\0", "\n"]
        let count = Int.random(in: 0...(u8() == 0 ? 3000 : 9), using: &random)
        return (0..<count).map { _ in alphabet.randomElement(using: &random)! }.joined()
    }

    mutating func u8() -> UInt8 { .random(in: 0...255, using: &random) }
    mutating func u16() -> UInt16 { .random(in: 0 ... .max, using: &random) }
    mutating func u32() -> UInt32 { .random(in: 0 ... .max, using: &random) }
    mutating func u64() -> UInt64 { .random(in: 0 ... .max, using: &random) }
    mutating func correlation() -> UInt32 { .random(in: 1 ... .max, using: &random) }
    mutating func flag() -> Bool { .random(using: &random) }
    mutating func instant() -> Instant {
        Instant(millisecondsSince1970: .random(in: .min ... .max, using: &random))
    }
    mutating func one<Choice: CaseIterable>(_ type: Choice.Type = Choice.self) -> Choice {
        Choice.allCases.randomElement(using: &random)!
    }
    mutating func list<Element>(_ make: (inout Self) -> Element) -> [Element] {
        (0..<Int.random(in: 0...5, using: &random)).map { _ in make(&self) }
    }
    mutating func bytes() -> [UInt8] { list { $0.u8() } }
    mutating func size() -> Int { Int(u32()) }
    /// A part of 1 that the wire can tell.
    mutating func part() -> Double { Double(u32() % 1_000_001) / 1_000_000 }
    mutating func project() -> ProjectSummary {
        ProjectSummary(
            id: text(), senderID: u64(), conditionTopicsMax: Int(u8()), instanceCount: u64(),
            topicCount: u64(), weight: size(), overload: one())
    }
    mutating func fanout() -> FanoutSummary {
        FanoutSummary(
            project: text(), messageNumber: u64(), kind: one(), target: text(), since: instant(),
            deferredPlace: flag() ? nil : size() | 1, recipientCount: u64(),
            deliveredCount: u64(), progress: part(), deliveriesPerSecond: Double(u32() >> 1),
            share: part(), secondsLeft: flag() ? nil : Double(u32() >> 1))
    }
    mutating func status() -> BrokerStatus {
        var status = BrokerStatus(now: instant())
        (status.connectionCount, status.commandsWaiting) = (size(), size())
        (status.deliveredCount, status.acknowledgedCount) = (u64(), u64())
        (status.fellBehindCount, status.frameBytes) = (u64(), size())
        (status.requestBytes, status.storeBytesUsed) = (size(), size())
        status.allocatedBytes = flag() ? nil : size() | 1
        status.projects = list { $0.projectStatus() }
        status.nodes = list {
            NodeStatus(
                node: $0.text(), isActive: $0.flag(), connectionCount: $0.size(),
                deliveredCount: $0.u64(), acknowledgedCount: $0.u64())
        }
        return status
    }
    mutating func projectStatus() -> ProjectStatus {
        ProjectStatus(
            project: text(), weight: size(), connectionCount: size(), deliveredCount: u64(),
            fanoutsInProgress: size(), fanoutsDeferred: size(), fanoutBytes: size(),
            frameBytes: size(), requestBytes: size(), share: part())
    }

    /// Of any kind but several.
    mutating func single() -> MessageTarget {
        let text = text()
        return [.token(text), .topic(text), .condition(text), .group(text)]
            .randomElement(using: &random)!
    }

    mutating func accepted() -> Accepted {
        Accepted(
            correlation: correlation(), messageNumber: u64(), recipients: u64(),
            rateLimited: u64(), inactive: u64(), deferredPlace: u64())
    }

    mutating func group() -> ClientFrame {
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            .request(
                CreateGroupRequest(
                    correlation: correlation(), name: text(), tokens: list { $0.text() }))
        case 1:
            .request(
                ChangeGroupRequest(
                    correlation: correlation(), operation: one(), name: text(), key: text(),
                    tokens: list { $0.text() }))
        case 2: .request(FindGroupRequest(correlation: correlation(), name: text()))
        default:
            .request(ListGroupsRequest(correlation: correlation(), after: text(), limit: u16()))
        }
    }

    mutating func groupAnswer() -> BrokerFrame {
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            .answer(
                GroupResult(
                    correlation: correlation(), name: text(), key: text(),
                    tokens: list { $0.text() }))
        case 1:
            .answer(
                GroupPage(
                    correlation: correlation(), hasMore: flag(),
                    groups: list {
                        .init(name: $0.text(), key: $0.text(), memberCount: Int($0.u16()))
                    }))
        case 2:
            .groupAccepted(
                GroupAccepted(
                    accepted: accepted(), successes: u16(),
                    failures: list { .init(token: $0.text(), word: $0.one()) }))
        default:
            .multicastResult(
                MulticastResult(
                    accepted: accepted(), successes: u16(),
                    failures: list { .init(index: $0.u16(), word: $0.one()) }))
        }
    }

    mutating func counts() -> DeliveryCounts {
        var counts = DeliveryCounts()
        (counts.targeted, counts.sent, counts.displayed) = (u64(), u64(), u64())
        (counts.opened, counts.acknowledged, counts.collapsed) = (u64(), u64(), u64())
        (counts.expired, counts.rateLimited, counts.discardedTooMany) = (u64(), u64(), u64())
        (counts.discardedInactive, counts.unregistered) = (u64(), u64())
        (counts.cancelled, counts.nowOrNever) = (u64(), u64())
        (counts.handedOver, counts.refused) = (u64(), u64())
        return counts
    }

    mutating func reportQuestion() -> ClientFrame {
        switch Int.random(in: 0..<3, using: &random) {
        case 0: .request(ReportRequest(correlation: correlation(), messageNumber: u64()))
        case 1:
            .request(
                ListDaysRequest(
                    correlation: correlation(), first: Day(u32()), last: Day(u32()),
                    cursor: text(), limit: u16()))
        default:
            .request(
                ListNotReceivedRequest(
                    correlation: correlation(), messageNumber: u64(), cursor: text(),
                    limit: u16()))
        }
    }

    mutating func reportAnswer() -> BrokerFrame {
        flag()
            ? .answer(
                ReportResult(
                    correlation: correlation(), messageNumber: u64(), accepted: instant(),
                    unsettledCount: u64(), counts: counts()))
            : .answer(
                DayPage(
                    correlation: correlation(), nextCursor: text(),
                    entries: list {
                        DailyCounts(
                            day: Day($0.u32()), app: $0.text(), platform: $0.one(),
                            counts: $0.counts())
                    }))
    }

    mutating func client() -> ClientFrame {
        switch Int.random(in: 0..<50, using: &random) {
        case 0:
            .hello(
                .device(
                    projectID: text(), token: text(), deviceKey: text(), state: one(),
                    unconfirmed: list { $0.u64() }))
        case 1: .hello(.sender(projectID: text(), serverKey: text()))
        case 2:
            .hello(
                .newDevice(
                    projectID: text(), appName: text(), platform: one(),
                    credential: [.none, .key(text()), .ticket(text())].randomElement(
                        using: &random)!))
        case 3: .hello(.administrator(administratorKey: text(), projectID: text()))
        case 4: .ping(Ping(value: u64()))
        case 5: .pong(Pong(value: u64()))
        case 6: .acknowledge(Acknowledge(through: u64(), streamIDs: list { $0.u64() }))
        case 7:
            .deviceTopics(
                DeviceTopicsRequest(
                    operation: one(), correlation: correlation(), topics: list { $0.text() }))
        case 8: .unregister(UnregisterRequest(correlation: correlation()))
        case 9:
            .request(
                ChangeTopicRequest(
                    correlation: correlation(), operation: one(), topic: text(),
                    tokens: list { $0.text() }))
        case 10:
            flag()
                ? .request(AudienceRequest(correlation: correlation(), condition: text()))
                : .request(ExplainRequest(correlation: correlation(), condition: text()))
        case 11:
            .request(ListTopicsRequest(correlation: correlation(), after: text(), limit: u16()))
        case 12:
            flag()
                ? .request(
                    ListSubscribersRequest(
                        correlation: correlation(), topic: text(), cursor: text(), limit: u16()))
                : .request(
                    ListAudienceRequest(
                        correlation: correlation(), condition: text(), cursor: text(),
                        limit: u16()))
        case 13:
            .request(
                ListInstanceTopicsRequest(
                    correlation: correlation(), token: text(), after: text(), limit: u16()))
        case 14:
            .request(
                CreateProjectRequest(
                    correlation: correlation(), projectID: text(), conditionTopicsMax: u8()))
        case 15:
            .request(ListProjectsRequest(correlation: correlation(), after: text(), limit: u16()))
        case 16:
            .request(
                CreateKeyRequest(correlation: correlation(), projectID: text(), name: text()))
        case 17:
            .request(
                RevokeKeyRequest(correlation: correlation(), projectID: text(), keyID: text()))
        case 18:
            flag()
                ? .request(ListKeysRequest(correlation: correlation(), projectID: text()))
                : .request(FindLimitsRequest(correlation: correlation(), projectID: text()))
        case 19: .deviceState(DeviceStateReport(state: one()))
        case 20:
            .receipt(ReceiptRequest(correlation: correlation(), kind: one(), streamID: u64()))
        case 21: .rotate(RotateRequest(correlation: correlation()))
        case 22:
            flag()
                ? .request(CancelRequest(correlation: correlation(), messageNumber: u64()))
                : .request(
                    UnregisterTokenRequest(correlation: correlation(), token: text()))
        case 23: .listenReceipts(ListenReceiptsRequest(correlation: correlation()))
        case 24: .receiptAcknowledge(ReceiptAcknowledge(through: u64()))
        case 25:
            flag()
                ? .request(
                    ChangeProjectRequest(
                        correlation: correlation(), projectID: text(),
                        weight: flag() ? nil : u32() | 1, overload: flag() ? nil : one(),
                        conditionTopicsMax: flag() ? nil : u8() | 1))
                : .request(
                    ChangeLimitsRequest(
                        correlation: correlation(), projectID: text(),
                        changes: list { .init($0.one(), to: $0.flag() ? nil : $0.size() >> 1) }))
        case 26:
            .request(
                ListFanoutsRequest(
                    correlation: correlation(), projectID: text(), cursor: text(), limit: u16()))
        case 27:
            flag()
                ? .request(StatusRequest(correlation: correlation()))
                : flag()
                    ? .request(BackupRequest(correlation: correlation(), backup: u64()))
                    : .request(MetricsRequest(correlation: correlation()))
        case 28: .request(QuotasRequest(correlation: correlation()))
        case 29:
            .upstream(
                UpstreamRequest(
                    correlation: correlation(), group: text(), messageID: text(),
                    timeToLiveSeconds: flag() ? nil : u32() >> 1, message: bytes()))
        case 30: .listenUpstream(ListenUpstreamRequest(correlation: correlation()))
        case 31: .upstreamAcknowledge(UpstreamAcknowledge(numbers: list { $0.u64() }))
        case 32..<35: group()
        case 35..<37: reportQuestion()
        case 37: flag() ? .channel(ChannelSelection(number: u8() & 63)) : .detach(Detach())
        case 38: .hello(.shared)
        case 39:
            .request(
                CreateServiceAccountRequest(
                    correlation: correlation(), projectID: text(), keyID: text(), name: text(),
                    clientEmail: text(), publicKey: bytes()))
        case 40:
            .request(
                RevokeServiceAccountRequest(
                    correlation: correlation(), projectID: text(), keyID: text()))
        case 41:
            .request(ListServiceAccountsRequest(correlation: correlation(), projectID: text()))
        case 42..<48: registration()
        default:
            .send(
                SendRequest(
                    correlation: correlation(),
                    target: flag() ? single() : .several(list { $0.single() }),
                    message: bytes(), timeToLiveSeconds: flag() ? nil : u32() >> 1,
                    priority: flag() ? nil : one(), collapseKey: text(),
                    restrictedPackageName: text(), idempotencyKey: text(),
                    sendAt: flag() ? nil : instant(), notReceived: flag() ? nil : u64(),
                    options: MessageOptions(wantsReceipts: flag()), validateOnly: flag()))
        }
    }

    mutating func broker() -> BrokerFrame {
        switch Int.random(in: 0..<39, using: &random) {
        case 0:
            .welcome(
                Welcome(
                    role: flag() ? .device : .administrator, idleSeconds: u32(),
                    frameBytesMax: u32(), now: instant(), senderID: u64(),
                    acknowledgedThrough: u64(), token: text(), deviceKey: text()))
        case 1: .ping(Ping(value: u64()))
        case 2: .pong(Pong(value: u64()))
        case 3:
            .error(
                ErrorFrame(
                    correlation: u32(),
                    error: MartletError(
                        one(), text(), field: text(), byteOffset: flag() ? nil : u32() >> 1,
                        retryDelayMilliseconds: flag() ? nil : u32() >> 1)))
        case 4: .draining(Draining(reconnectDelayMilliseconds: u32()))
        case 5: .done(Done(correlation: correlation()))
        case 6:
            .deliver(
                Deliver(
                    streamID: u64(), accepted: instant(), expires: instant(), kind: one(),
                    priority: one(), from: text(), message: bytes(),
                    options: MessageOptions(wantsReceipts: flag()),
                    ownNumber: flag() ? nil : u64()))
        case 7:
            .topicResult(
                TopicResult(
                    correlation: correlation(), successes: u16(),
                    failures: list { .init(index: $0.u16(), word: $0.one()) }))
        case 8:
            .accepted(accepted())
        case 9:
            .answer(
                AudienceResult(
                    correlation: correlation(), total: u64(), android: u64(), apple: u64(),
                    web: u64(),
                    apps: list { .init(app: $0.text(), platform: $0.one(), count: $0.u64()) }))
        case 10:
            .answer(
                Explanation(
                    correlation: correlation(), tree: text(), bytecode: text(),
                    parts: list { .init(start: $0.u32(), end: $0.u32(), count: $0.u64()) },
                    advice: list { .init(byteOffset: $0.u32(), text: $0.text()) }))
        case 11:
            .answer(
                TopicPage(
                    correlation: correlation(), hasMore: flag(),
                    topics: list { .init(name: $0.text(), subscriberCount: $0.u64()) }))
        case 12:
            .answer(
                TokenPage(
                    correlation: correlation(), total: u64(), nextCursor: text(),
                    tokens: list { $0.text() }))
        case 13:
            flag()
                ? .answer(ProjectResult(correlation: correlation(), project: project()))
                : .answer(
                    LimitsResult(
                        correlation: correlation(),
                        limits: list {
                            .init(limit: $0.one(), value: $0.size(), isOwn: $0.flag())
                        }))
        case 14:
            .answer(
                ProjectPage(
                    correlation: correlation(), hasMore: flag(), projects: list { $0.project() }))
        case 15: .answer(KeyResult(correlation: correlation(), keyID: text(), text: text()))
        case 16: .confirmed(Confirmed(through: u64()))
        case 17: .deleted(Deleted(streamID: u64(), count: u64()))
        case 18: .rotated(Rotated(correlation: correlation(), token: text()))
        case 21:
            .answer(
                FanoutPage(
                    correlation: correlation(), nextCursor: text(), fanouts: list { $0.fanout() }))
        case 22:
            flag()
                ? .answer(StatusResult(correlation: correlation(), status: status()))
                : flag()
                    ? .answer(
                        BackupPart(
                            correlation: correlation(), backup: u64(), isLast: flag(),
                            content: bytes()))
                    : .answer(MetricsResult(correlation: correlation(), lines: list { $0.text() }))
        case 19:
            .answer(
                Cancelled(correlation: correlation(), wasScheduled: flag(), delivered: u64()))
        case 20:
            .receiptEvent(
                ReceiptEvent(
                    eventID: u64(), messageNumber: u64(), token: text(), kind: one(),
                    instant: instant()))
        case 26..<29: groupAnswer()
        case 29..<31: reportAnswer()
        case 31: flag() ? .channel(ChannelSelection(number: u8() & 63)) : .detached(Detached())
        case 23:
            .answer(
                QuotaList(
                    correlation: correlation(),
                    quotas: list {
                        .init(
                            name: $0.text(), limit: $0.u64(), remaining: $0.u64(),
                            untilFullMilliseconds: $0.flag() ? nil : UInt64($0.u32() >> 1))
                    }))
        case 32:
            .answer(
                ServiceAccountPage(
                    correlation: correlation(),
                    entries: list {
                        .init(
                            keyID: $0.text(), name: $0.text(), clientEmail: $0.text(),
                            created: $0.instant(), isRevoked: $0.flag())
                    }))
        case 33..<37: registrationAnswer()
        case 24: .upstreamAccepted(UpstreamAccepted(correlation: correlation(), number: u64()))
        case 25:
            .upstreamMessage(
                UpstreamDelivery(
                    number: u64(), accepted: instant(), expires: instant(), token: text(),
                    appName: text(), messageID: text(), message: bytes()))
        default:
            .answer(
                KeyPage(
                    correlation: correlation(),
                    entries: list {
                        .init(
                            id: $0.text(), name: $0.text(), created: $0.instant(),
                            isRevoked: $0.flag())
                    }))
        }
    }
}

@Suite struct RandomFrameTests {
    @Test("NET-1 random frames come back as they were, in streams cut anywhere", arguments: 1...40)
    func roundTrip(seed: UInt64) throws {
        var frames = RandomFrames(random: SeededGenerator(seed: seed))
        let sent: [AnyFrame] = (0..<100).map { _ in
            switch frames.u8() % 5 {
            case 0, 1: .client(frames.client())
            case 2, 3: .broker(frames.broker())
            default: .node(frames.node())
            }
        }
        let stream = sent.flatMap(\.encoded)
        var received: [AnyFrame] = []
        var splitter = FrameSplitter(frameBytesMax: Limits.brokerFrameBytesMax)
        var rest = stream[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(Int.random(in: 1...200, using: &frames.random)))
            rest = rest.dropFirst(piece.count)
            try splitter.split(piece.span.bytes) { (type, body) throws(WireError) in
                switch sent[received.count] {
                case .client:
                    received.append(.client(try ClientFrame.decode(type: type, body: body)))
                case .broker:
                    received.append(.broker(try BrokerFrame.decode(type: type, body: body)))
                case .node:
                    received.append(.node(try NodeFrame.decode(type: type, body: body)))
                }
            }
        }
        #expect(received == sent)
        let idle = splitter.isIdle
        #expect(idle)
    }
}
