// SPDX-License-Identifier: Apache-2.0
//
// The value of each golden vector, written by hand (NET-1).

import MartletBase
import MartletWire

private let now = Instant(millisecondsSince1970: 1_760_000_000_000)

private func message(_ message: Message) -> [UInt8] {
    var writer = WireWriter()
    message.encode(into: &writer)
    return writer.bytes
}

private func welcome(
    _ role: ConnectionRole, frameBytesMax: UInt32, through: UInt64 = 0, token: String = "",
    deviceKey: String = ""
) -> AnyFrame {
    .broker(
        .welcome(
            Welcome(
                role: role, idleSeconds: 1800, frameBytesMax: frameBytesMax, now: now,
                senderID: 100_200_300, acknowledgedThrough: through, token: token,
                deviceKey: deviceKey)))
}

private let project = ProjectSummary(
    id: "tides", senderID: 100_200_300, conditionTopicsMax: 10, instanceCount: 0, topicCount: 0)

private let status: BrokerStatus = {
    var status = BrokerStatus(now: now)
    status.connectionCount = 100_000
    status.deliveredCount = 3_000_000_000
    status.acknowledgedCount = 2_900_000_000
    status.fellBehindCount = 12
    status.commandsWaiting = 5
    status.frameBytes = 65_536
    status.requestBytes = 8192
    status.storeBytesUsed = 1_048_576
    status.projects = [
        .init(
            project: "tides", weight: 3, connectionCount: 99_000, deliveredCount: 2_500_000,
            fanoutsInProgress: 2, fanoutsDeferred: 1, fanoutBytes: 1_300_000,
            frameBytes: 524_288, requestBytes: 4096, share: 0.75)
    ]
    return status
}()

/// A message that the broker does not look into.
private let opaque = Message(
    opaque: [0, 1, 0xFE, 0xFF],
    webpush: .init(options: [.init(key: "encoding", value: "aesgcm")]))

/// A message with a block for each platform.
private let storm = Message(
    notification: .init(title: "Storm"), data: ["k": "v"],
    android: .init(
        data: [.init(key: "k", value: "android")], timeToLiveSeconds: 4500, priority: .high,
        collapseKey: "storm", restrictedPackageName: "com.example.tides",
        options: [
            .init(key: "channel_id", value: "alerts"), .init(key: "icon", value: "wave"),
        ]),
    apns: .init(
        notification: .init(body: "Force 9"), expirationSeconds: 1_760_004_500, priority: .normal,
        collapseID: "storm",
        payload: .init(
            subtitle: "North Sea", badge: 3, sound: "horn.caf", category: "warning",
            threadID: "north-sea", contentAvailable: true, mutableContent: true,
            custom: [.init(key: "gusts", value: #"{"knots":[47,52]}"#)],
            aps: [.init(key: "interruption-level", value: #""critical""#)])),
    webpush: .init(
        notification: .init(image: "https://example.com/s.png"), timeToLiveSeconds: 0,
        priority: .high, topic: "storm",
        options: [.init(key: "link", value: "https://example.com/")]))

private let opening: [String: AnyFrame] = [
    "hello-device": .client(
        .hello(
            .device(
                projectID: "tides", token: "tok-7", deviceKey: "dev-secret", state: .background,
                unconfirmed: [41, 44]))),
    "hello-device-dozing": .client(
        .hello(
            .device(
                projectID: "tides", token: "tok-7", deviceKey: "dev-secret", state: .doze,
                unconfirmed: []))),
    "hello-sender": .client(.hello(.sender(projectID: "tides", serverKey: "srv-secret"))),
    "hello-new-device": .client(
        .hello(
            .newDevice(projectID: "tides", appName: "com.example.tides", platform: .apple))),
    "hello-new-device-key": .client(
        .hello(
            .newDevice(
                projectID: "tides", appName: "com.example.tides", platform: .android,
                credential: .key("reg-secret")))),
    "hello-new-device-ticket": .client(
        .hello(
            .newDevice(
                projectID: "tides", appName: "com.example.tides", platform: .web,
                credential: .ticket("head.claims.sign")))),
    "hello-administrator": .client(
        .hello(.administrator(administratorKey: "adm-secret", projectID: ""))),
    "hello-administrator-of-project": .client(
        .hello(.administrator(administratorKey: "adm-secret", projectID: "tides"))),
    "welcome-device": welcome(.device, frameBytesMax: 16_384, through: 41),
    "welcome-new-device": welcome(
        .device, frameBytesMax: 16_384, token: "tok-7", deviceKey: "dev-secret"),
    "welcome-sender": welcome(.sender, frameBytesMax: 524_288),
    "hello-shared": .client(.hello(.shared)),
    "welcome-shared": .broker(
        .welcome(
            Welcome(
                role: .shared, idleSeconds: 1800, frameBytesMax: 16_384, now: now, senderID: 0))),
    "channel": .client(.channel(ChannelSelection(number: 3))),
    "detach": .client(.detach(Detach())),
    "detached": .broker(.detached(Detached())),
    "ping": .client(.ping(Ping(value: 0x0102_0304_0506_0708))),
    "pong": .broker(.pong(Pong(value: 0x0102_0304_0506_0708))),
    "error-condition": .broker(
        .error(
            ErrorFrame(
                correlation: 9,
                error: MartletError(
                    .invalidArgument, "Write && or ||.", field: "condition", byteOffset: 17)))),
    "error-connection": .broker(
        .error(
            ErrorFrame(
                correlation: 0,
                error: MartletError(
                    .unavailable, "The broker is full.", retryDelayMilliseconds: 2500)))),
    "draining": .broker(.draining(Draining(reconnectDelayMilliseconds: 5000))),
    "done": .broker(.done(Done(correlation: 9))),
]

private let devices: [String: AnyFrame] = [
    "deliver-topic": .broker(
        .deliver(
            Deliver(
                streamID: 42, accepted: now, expires: now.advanced(bySeconds: 2_419_200),
                kind: .topic, priority: .high, from: "/topics/high-water",
                message: message(
                    Message(
                        notification: .init(
                            title: "High water", body: "18:04 ⚓",
                            image: "https://example.com/a.png"),
                        data: ["station": "Husum", "cm": "412"]))))),
    "deliver-not-stored": .broker(
        .deliver(
            Deliver(
                streamID: 1 << 63 | 43, accepted: now, expires: now, kind: .condition,
                priority: .normal, from: "100200300", message: message(Message(data: ["k": ""]))))),
    "deliver-empty": .broker(
        .deliver(
            Deliver(
                streamID: 44, accepted: Instant(millisecondsSince1970: -1),
                expires: Instant(millisecondsSince1970: 0), kind: .token, priority: .normal,
                from: "100200300", message: []))),
    "deliver-scheduled": .broker(
        .deliver(
            Deliver(
                streamID: 47, accepted: now, expires: now.advanced(bySeconds: 60), kind: .token,
                priority: .normal, from: "100200300", message: message(Message(data: ["k": "v"])),
                options: MessageOptions(wantsReceipts: true), ownNumber: 30))),
    "deliver-android": .broker(
        .deliver(
            Deliver(
                streamID: 48, accepted: now, expires: now.advanced(bySeconds: 4500), kind: .topic,
                priority: .high, from: "/topics/storm",
                message: try! Message.variants(of: message(storm), target: .topic)[0].body,
                options: MessageOptions(wantsReceipts: true)))),
    "deliver-apple": .broker(
        .deliver(
            Deliver(
                streamID: 49, accepted: now, expires: now.advanced(bySeconds: 4500), kind: .topic,
                priority: .normal, from: "/topics/storm",
                message: try! Message.variants(of: message(storm), target: .topic)[1].body))),
    "deliver-several": .broker(
        .deliver(
            Deliver(
                streamID: 50, accepted: now, expires: now.advanced(bySeconds: 600), kind: .several,
                priority: .high, from: "100200300", message: message(Message(data: ["cm": "412"])),
                options: MessageOptions(wantsReceipts: true)))),
    "deliver-opaque": .broker(
        .deliver(
            Deliver(
                streamID: 51, accepted: now, expires: now.advanced(bySeconds: 60), kind: .token,
                priority: .high, from: "100200300",
                message: try! Message.variants(of: message(opaque), target: .token)[0].body))),
    "device-state": .client(.deviceState(DeviceStateReport(state: .doze))),
    "confirmed": .broker(.confirmed(Confirmed(through: 110))),
    "deleted": .broker(.deleted(Deleted(streamID: 120, count: 101))),
    "receipt": .client(
        .receipt(ReceiptRequest(correlation: 4, kind: .displayed, streamID: 42))),
    "upstream": .client(
        .upstream(
            UpstreamRequest(
                correlation: 9, messageID: "reading-7", timeToLiveSeconds: 3600,
                message: message(Message(data: ["cm": "412"]))))),
    "upstream-to-group": .client(
        .upstream(
            UpstreamRequest(
                correlation: 10, group: "group-key", messageID: "reading-8",
                message: message(Message(data: ["cm": "412"]))))),
    "upstream-accepted": .broker(
        .upstreamAccepted(UpstreamAccepted(correlation: 9, number: 501))),
    "rotate": .client(.rotate(RotateRequest(correlation: 5))),
    "rotated": .broker(.rotated(Rotated(correlation: 5, token: "tok-9"))),
    "ack": .client(.acknowledge(Acknowledge(through: 42, streamIDs: [44, 47]))),
    "ack-through": .client(.acknowledge(Acknowledge(through: 42))),
    "subscribe": .client(
        .deviceTopics(
            DeviceTopicsRequest(
                operation: .subscribe, correlation: 1, topics: ["high-water", "/topics/storm"]))),
    "unsubscribe": .client(
        .deviceTopics(
            DeviceTopicsRequest(operation: .unsubscribe, correlation: 2, topics: ["storm"]))),
    "unregister": .client(.unregister(UnregisterRequest(correlation: 3))),
]

private let senders: [String: AnyFrame] = [
    "send-condition": .client(
        .send(
            SendRequest(
                correlation: 7, target: .condition("'a' in topics && !('b' in topics)"),
                message: message(Message(data: ["k": "v"])), timeToLiveSeconds: 3600,
                priority: .high))),
    "send-opaque": .client(
        .send(
            SendRequest(
                correlation: 45, target: .token("tok-7"), message: message(opaque),
                timeToLiveSeconds: 60, priority: .high, collapseKey: "news"))),
    "send-validate-only": .client(
        .send(
            SendRequest(
                correlation: 8, target: .token("tok-7"),
                message: message(Message(notification: .init(title: "Hi"))), validateOnly: true))),
    "send-empty": .client(
        .send(
            SendRequest(
                correlation: .max, target: .topic("storm"), message: [], timeToLiveSeconds: 0,
                priority: .normal))),
    "send-scheduled": .client(
        .send(
            SendRequest(
                correlation: 22, target: .topic("storm"),
                message: message(Message(data: ["cm": "412"])), timeToLiveSeconds: 600,
                priority: .normal, collapseKey: "level",
                restrictedPackageName: "com.example.tides", idempotencyKey: "run-5",
                sendAt: now.advanced(bySeconds: 3600), options: MessageOptions(wantsReceipts: true))
        )),
    "send-blocks": .client(
        .send(
            SendRequest(correlation: 23, target: .topic("storm"), message: message(storm)))),
    "cancel": .client(.request(CancelRequest(correlation: 24, messageNumber: 42))),
    "cancelled": .broker(
        .answer(Cancelled(correlation: 24, wasScheduled: false, delivered: 17))),
    "cancelled-scheduled": .broker(
        .answer(Cancelled(correlation: 25, wasScheduled: true, delivered: 0))),
    "unregister-token": .client(
        .request(UnregisterTokenRequest(correlation: 27, token: "tok-7"))),
    "listen-receipts": .client(.listenReceipts(ListenReceiptsRequest(correlation: 26))),
    "receipt-event": .broker(
        .receiptEvent(
            ReceiptEvent(
                eventID: 7, messageNumber: 42, token: "tok-7", kind: .opened, instant: now))),
    "receipt-ack": .client(.receiptAcknowledge(ReceiptAcknowledge(through: 7))),
    "listen-upstream": .client(.listenUpstream(ListenUpstreamRequest(correlation: 27))),
    "upstream-message": .broker(
        .upstreamMessage(
            UpstreamDelivery(
                number: 501, accepted: now, expires: now.advanced(bySeconds: 3600),
                token: "tok-7", appName: "com.example.tides", messageID: "reading-7",
                message: message(Message(data: ["cm": "412"]))))),
    "upstream-ack": .client(.upstreamAcknowledge(UpstreamAcknowledge(numbers: [501, 503]))),
    "accepted": .broker(
        .accepted(
            Accepted(
                correlation: 7, messageNumber: 42, recipients: 10_000_000, rateLimited: 3,
                inactive: 12_000))),
    "accepted-deferred": .broker(
        .accepted(Accepted(correlation: 8, messageNumber: 43, recipients: 0, deferredPlace: 17))),
    "list-fanouts": .client(
        .request(
            ListFanoutsRequest(
                correlation: 29, projectID: "tides", cursor: "0.12.0.0", limit: 2))),
    "fanout-page": .broker(
        .answer(
            FanoutPage(
                correlation: 29, nextCursor: "0.13.43.1",
                fanouts: [
                    FanoutSummary(
                        project: "tides", messageNumber: 42, kind: .topic, target: "storm",
                        since: now, recipientCount: 10_000_000, deliveredCount: 2_500_000,
                        progress: 0.25, deliveriesPerSecond: 800_000, share: 0.5,
                        secondsLeft: 10),
                    FanoutSummary(
                        project: "tides", messageNumber: 43, kind: .condition,
                        target: "'a' in topics", since: now, deferredPlace: 1),
                ]))),
    "change-topic": .client(
        .request(
            ChangeTopicRequest(
                correlation: 10, operation: .subscribe, topic: "storm", tokens: ["tok-7", "tok-8"]))
    ),
    "change-topic-unsubscribe": .client(
        .request(
            ChangeTopicRequest(
                correlation: 11, operation: .unsubscribe, topic: "storm", tokens: ["tok-7"]))),
    "topic-result": .broker(
        .topicResult(
            TopicResult(
                correlation: 10, successes: 1,
                failures: [.init(index: 1, word: .tooManyTopics), .init(index: 3, word: .notFound)])
        )
    ),
    "audience": .client(
        .request(AudienceRequest(correlation: 12, condition: "'a' in topics"))),
    "audience-result": .broker(
        .answer(
            AudienceResult(
                correlation: 12, total: 3, android: 2, apple: 1, web: 0,
                apps: [
                    .init(app: "com.example.tides", platform: .android, count: 2),
                    .init(app: "com.example.tides", platform: .apple, count: 1),
                ]))),
    "explain": .client(
        .request(ExplainRequest(correlation: 13, condition: "'a' in topics"))),
    "explanation": .broker(
        .answer(
            Explanation(
                correlation: 13, tree: "topic a", bytecode: "load 0",
                parts: [.init(start: 0, end: 13, count: 3)],
                advice: [.init(byteOffset: 1, text: "Nobody subscribes to a.")]))),
    "list-topics": .client(
        .request(ListTopicsRequest(correlation: 14, after: "", limit: 100))),
    "topic-page": .broker(
        .answer(
            TopicPage(
                correlation: 14, hasMore: true,
                topics: [
                    .init(name: "high-water", subscriberCount: 12),
                    .init(name: "storm", subscriberCount: 3_000_000_000_000),
                ]))),
    "quotas": .client(.request(QuotasRequest(correlation: 26))),
    "quota-list": .broker(
        .answer(
            QuotaList(
                correlation: 26,
                quotas: [
                    .init(
                        name: "topic-changes-per-second", limit: 3000, remaining: 2000,
                        untilFullMilliseconds: 334),
                    .init(
                        name: "sender-connections-max", limit: 2500, remaining: 2499,
                        untilFullMilliseconds: nil),
                ]))),
    "list-audience": .client(
        .request(
            ListAudienceRequest(
                correlation: 16, condition: "!('a' in topics)", cursor: "", limit: 1000))),
    "list-subscribers": .client(
        .request(ListSubscribersRequest(correlation: 15, topic: "storm", cursor: "c1", limit: 2))),
    "token-page": .broker(
        .answer(
            TokenPage(correlation: 15, total: 5, nextCursor: "c2", tokens: ["tok-7", "tok-8"]))),
    "list-instance-topics": .client(
        .request(
            ListInstanceTopicsRequest(
                correlation: 16, token: "", after: "high-water", limit: 1000))
    ),
]

private let groups: [String: AnyFrame] = [
    "create-group": .client(
        .request(
            CreateGroupRequest(
                correlation: 31, name: "Hanna’s phones", tokens: ["tok-7", "tok-8"]))),
    "change-group": .client(
        .request(
            ChangeGroupRequest(
                correlation: 32, operation: .add, name: "Hanna’s phones", key: "grp-1",
                tokens: ["tok-9"]))),
    "change-group-remove": .client(
        .request(
            ChangeGroupRequest(
                correlation: 33, operation: .remove, name: "Hanna’s phones", key: "grp-1",
                tokens: ["tok-8", "tok-9"]))),
    "group": .broker(
        .answer(
            GroupResult(
                correlation: 32, name: "Hanna’s phones", key: "grp-1",
                tokens: ["tok-7", "tok-8", "tok-9"]))),
    "group-deleted": .broker(
        .answer(
            GroupResult(correlation: 34, name: "Hanna’s phones", key: "grp-1", tokens: []))),
    "find-group": .client(
        .request(FindGroupRequest(correlation: 35, name: "Hanna’s phones"))),
    "list-groups": .client(
        .request(ListGroupsRequest(correlation: 36, after: "", limit: 100))),
    "group-page": .broker(
        .answer(
            GroupPage(
                correlation: 36, hasMore: true,
                groups: [
                    .init(name: "Anton", key: "grp-2", memberCount: 20),
                    .init(name: "Hanna’s phones", key: "grp-1", memberCount: 1),
                ]))),
    "group-accepted": .broker(
        .groupAccepted(
            GroupAccepted(
                accepted: Accepted(
                    correlation: 37, messageNumber: 42, recipients: 2, rateLimited: 1),
                successes: 2, failures: [.init(token: "tok-9", word: .quotaExceeded)]))),
    "send-group": .client(
        .send(
            SendRequest(
                correlation: 37, target: .group("grp-1"),
                message: message(Message(notification: .init(title: "Dinner")))))),
    "multicast": .client(
        .send(
            SendRequest(
                correlation: 38,
                target: .several([
                    .token("tok-7"), .token("tok-8"), .topic("storm"),
                    .condition("'a' in topics"), .group("grp-1"),
                ]), message: message(Message(data: ["cm": "412"])), timeToLiveSeconds: 600,
                priority: .high, collapseKey: "level", idempotencyKey: "run-6",
                options: MessageOptions(wantsReceipts: true)))),
    "multicast-result": .broker(
        .multicastResult(
            MulticastResult(
                accepted: Accepted(
                    correlation: 38, messageNumber: 43, recipients: 1200, rateLimited: 3,
                    inactive: 7), successes: 1, failures: [.init(index: 1, word: .unregistered)]))),
    "multicast-result-deferred": .broker(
        .multicastResult(
            MulticastResult(
                accepted: Accepted(
                    correlation: 39, messageNumber: 44, recipients: 0, deferredPlace: 2),
                successes: 0, failures: [.init(index: 0, word: .invalidArgument)]))),
]

private let administrators: [String: AnyFrame] = [
    "create-project": .client(
        .request(
            CreateProjectRequest(correlation: 17, projectID: "tides", conditionTopicsMax: 10))),
    "project": .broker(
        .answer(ProjectResult(correlation: 17, project: project, registrationKey: "reg-secret"))),
    "project-changed": .broker(.answer(ProjectResult(correlation: 27, project: project))),
    "change-project": .client(
        .request(
            ChangeProjectRequest(
                correlation: 27, projectID: "tides", weight: 3, overload: .refuse,
                conditionTopicsMax: 64))),
    "change-project-weight": .client(
        .request(
            ChangeProjectRequest(correlation: 28, projectID: "tides", weight: 1000))),
    "find-limits": .client(.request(FindLimitsRequest(correlation: 63, projectID: "tides"))),
    "limits": .broker(
        .answer(
            LimitsResult(
                correlation: 63,
                limits: [
                    .init(limit: .topicsPerInstance, value: 2000, isOwn: false),
                    .init(limit: .tokensPerTopicRequest, value: 1000, isOwn: false),
                    .init(limit: .groupMembers, value: 50, isOwn: true),
                    .init(limit: .payloadBytes, value: 4000, isOwn: false),
                    .init(limit: .timeToLiveSeconds, value: 2_419_200, isOwn: false),
                    .init(limit: .topicChangesPerSecond, value: 0, isOwn: true),
                    .init(limit: .topicsPerCondition, value: 5, isOwn: false),
                    .init(limit: .registrationsPerSecond, value: 3000, isOwn: false),
                    .init(limit: .instancesPerProject, value: 10_000_000, isOwn: false),
                ]))),
    "change-limits": .client(
        .request(
            ChangeLimitsRequest(
                correlation: 64, projectID: "tides",
                changes: [
                    ProjectLimitChange(.groupMembers, to: 50),
                    ProjectLimitChange(.topicChangesPerSecond, to: 0),
                    ProjectLimitChange(.payloadBytes, to: nil),
                ]))),
    "backup": .client(.request(BackupRequest(correlation: 33, backup: 2))),
    "backup-part": .broker(
        .answer(
            BackupPart(correlation: 33, backup: 2, isLast: false, content: [0x4D, 0x52, 0x54]))),
    "metrics": .client(.request(MetricsRequest(correlation: 31))),
    "metrics-result": .broker(
        .answer(
            MetricsResult(
                correlation: 31,
                lines: ["# TYPE martlet_disk_short gauge", "martlet_disk_short 0"]))),
    "status": .client(.request(StatusRequest(correlation: 30))),
    "status-result": .broker(
        .answer(
            StatusResult(correlation: 30, status: status))),
    "list-projects": .client(
        .request(ListProjectsRequest(correlation: 18, after: "a", limit: 50))),
    "project-page": .broker(
        .answer(
            ProjectPage(
                correlation: 18, hasMore: false,
                projects: [
                    ProjectSummary(
                        id: "tides", senderID: 100_200_300, conditionTopicsMax: 10,
                        instanceCount: 7, topicCount: 2, weight: 3, overload: .refuse)
                ]))),
    "create-key": .client(
        .request(CreateKeyRequest(correlation: 19, projectID: "tides", name: "büro"))),
    "key": .broker(.answer(KeyResult(correlation: 19, keyID: "k1", text: "srv-secret"))),
    "revoke-key": .client(
        .request(RevokeKeyRequest(correlation: 20, projectID: "tides", keyID: "k1"))),
    "list-keys": .client(
        .request(ListKeysRequest(correlation: 21, projectID: "tides"))),
    "key-page": .broker(
        .answer(
            KeyPage(
                correlation: 21,
                entries: [.init(id: "k1", name: "büro", created: now, isRevoked: true)]))),
    "create-service-account": .client(
        .request(
            CreateServiceAccountRequest(
                correlation: 22, projectID: "tides", keyID: "a1b2", name: "büro",
                clientEmail: "s@tides", publicKey: [0x30, 0x03, 0x02, 0x01]))),
    "revoke-service-account": .client(
        .request(
            RevokeServiceAccountRequest(correlation: 23, projectID: "tides", keyID: "a1b2"))),
    "list-service-accounts": .client(
        .request(ListServiceAccountsRequest(correlation: 24, projectID: "tides"))),
    "service-account-page": .broker(
        .answer(
            ServiceAccountPage(
                correlation: 24,
                entries: [
                    .init(
                        keyID: "a1b2", name: "büro", clientEmail: "s@tides", created: now,
                        isRevoked: false)
                ]))),
]

/// Every vector's file name and value.
let vectorValues: [String: AnyFrame] = opening.merging(devices) { a, _ in a }
    .merging(senders) { a, _ in a }.merging(groups) { a, _ in a }
    .merging(reportVectors) { a, _ in a }.merging(administrators) { a, _ in a }
    .merging(registrationVectors) { a, _ in a }.merging(nodeVectors) { a, _ in a }
