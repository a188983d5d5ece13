// SPDX-License-Identifier: Apache-2.0
//
// Every documented limit, once, with the row of the specification that states it. The first group
// is the behaviour of Firebase Cloud Messaging as its public documentation describes it
// (Source: Firebase Cloud Messaging documentation, "Topic messaging", "Throttling and quotas",
// "About FCM messages"); the second bounds Martlet itself: every queue, table and loop has one.

/// Documented limits. Sizes are bytes, times are seconds, unless the name says otherwise.
public enum Limits {
    // MARK: Documented limits of the system that Martlet implements

    /// TOP-2: longest topic name, in bytes.
    public static let topicNameBytesMax = 900
    /// TOP-3: topics that one instance may subscribe to.
    public static let topicsPerInstanceMax = 2000
    /// TOP-4: tokens in one request of topic management.
    public static let tokensPerTopicRequestMax = 1000
    /// CON-3: distinct topics in one condition, unless the project raises it.
    public static let conditionTopicsMax = 5
    /// MSG-3: payload of a message, in UTF-8 bytes of notification texts and data.
    public static let payloadBytesMax = 4000
    /// MSG-3: payload of a message written in the composer, in characters.
    public static let composerCharactersMax = 1024
    /// TTL-1: longest and default life of a stored message (28 days).
    public static let timeToLiveSecondsMax: UInt32 = 2_419_200

    /// TTL-1: how far ahead the instant may be at which a message expires (30 days: what SDKs of other
    /// platforms ask for unless told otherwise); stored it is no longer than any.
    public static let expirationSecondsMax: UInt32 = 2_592_000

    /// COL-3: collapse keys stored per instance.
    public static let collapseKeysPerInstanceMax = 4
    /// COL-4: collapsible messages that one app on one device gets in a row.
    public static let collapsibleBurst = 20
    /// COL-4: after how many seconds it gets one more.
    public static let collapsibleRefillSeconds = 180
    /// STO-1: messages that are not collapsible stored per instance.
    public static let storedPerInstanceMax = 100
    /// STO-2: an instance that has not connected for more seconds than this (30 days) is inactive.
    public static let inactiveSeconds = 2_592_000
    /// STO-2: how long an inactive instance is told of what was discarded (28 days).
    public static let discardNoticeSeconds: UInt32 = 2_419_200
    /// QUO-1: messages to one device in a minute.
    public static let deviceMessagesPerMinute = 240
    /// QUO-1: messages to one device in an hour.
    public static let deviceMessagesPerHour = 5000
    /// QUO-3: connections that a project's senders may open in a minute.
    public static let senderConnectionsPerMinute = 400
    /// QUO-3: connections that a project's senders may have at a time.
    public static let senderConnectionsMax = 2500
    /// QUO-2: messages that one device sends to its project in a minute.
    public static let deviceUpstreamPerMinute = 1000
    /// QUO-2: messages that all devices of a project send to it in a minute.
    public static let upstreamPerMinute = 1_500_000
    /// TOP-6, QUO-4: changes of a project's subscriptions in a second.
    public static let topicChangesPerSecond = 3000
    /// MSG-9: how long a sender may repeat an idempotency key, in seconds (24 h).
    public static let idempotencySeconds: UInt32 = 86_400

    /// GRP-2: members of one group.
    public static let groupMembersMax = 20

    /// FAN-1, QUO-5: messages of one project in progress to many instances.
    public static let fanoutsInProgressMax = 1000

    // MARK: Martlet's own bounds

    /// GRP-1: longest name of a group, in bytes.
    public static let groupNameBytesMax = 255
    /// GRP-1: bytes in a notification key,
    public static let groupKeyBytes = 24
    /// and the random ones among them (128 bits).
    public static let groupKeyRandomBytes = 16
    /// GRP-2: tokens in one request that changes a group; those that repeat count here.
    public static let tokensPerGroupRequestMax = 1000
    /// REG-3: groups that one instance is a member of: it leaves all of them in one transaction.
    public static let groupsPerInstanceMax = 1000
    /// Tokens among the targets of one message to several.
    public static let multicastTokensMax = 10_000
    /// Topics, conditions and groups among them: each is a set to be made.
    public static let multicastSetsMax = 100

    /// FAN-1: messages of one project that wait until others have ended.
    public static let fanoutsDeferredMax = 10_000
    /// FAN-1: memory held for what a project has in progress, past which the next ones wait: 200 sets
    /// of recipients over ten million instances.
    public static let fanoutMegabytesPerProjectMax = 256
    /// FAN-1: the same for all projects.
    public static let fanoutMegabytesMax = 1024
    /// FAN-6, OPS-5: memory for frames that wait to be sent to the devices and senders of one project,
    /// past which its fanouts and mailboxes wait and those that read nothing are disconnected.
    public static let frameMegabytesPerProjectMax = 64
    /// OPS-5: the same for all projects.
    public static let frameMegabytesMax = 256
    /// NET-3, OPS-5: what one connection has sent and was not answered yet, past which it is not read
    /// from.
    public static let requestBytesPerConnectionMax = 1 << 20
    /// OPS-5: the same for all connections of a project, past which requests are refused.
    public static let requestMegabytesPerProjectMax = 64
    /// OPS-5: the same for all projects.
    public static let requestMegabytesMax = 256
    /// FAN-2: the largest weight of a project beside those of others.
    public static let projectWeightMax = 1000
    /// FAN-7: the highest ceiling, in deliveries per second.
    public static let deliveriesPerSecondMax = 100_000_000

    /// MSG-9: longest idempotency key, in bytes.
    public static let idempotencyKeyBytesMax = 128
    /// COL-1: longest collapse key, in bytes.
    public static let collapseKeyBytesMax = 256
    /// MSG-5: longest encoded platform block, in bytes: beside its overrides the free-form parts.
    public static let platformBlockBytesMax = 4096
    /// MSG-10: how far ahead a message can be scheduled, in seconds (28 days).
    public static let scheduleSecondsMax: UInt32 = 2_419_200
    /// MSG-10: scheduled messages that wait in one project.
    public static let scheduledPerProjectMax = 100_000
    /// RCP-1: how long after its acceptance receipts of a message are taken, in seconds (28 days).
    public static let receiptsWantedSeconds: UInt32 = 2_419_200
    /// RCP-1: receipts kept for one project while no sender takes them; the oldest go first.
    public static let receiptsPerProjectMax = 1_000_000
    /// REP-1: how long the report of a single message is kept, in seconds (28 days).
    public static let reportSeconds = 2_419_200
    /// REP-1: reports of single messages kept for one project; the oldest go first.
    public static let reportsPerProjectMax = 1_000_000
    /// REP-1: how long a project's counts of a day are kept, in days.
    public static let reportDaysMax = 400
    /// REP-1: days that one question about a project's reports may span.
    public static let reportDaysAskedMax = 3660
    /// UPS-1: longest ID that a device gives a message of its own, in bytes.
    public static let upstreamIDBytesMax = 128
    /// UPS-1: longest and default life of a message that a device sends (28 days).
    public static let upstreamSecondsMax: UInt32 = 2_419_200
    /// UPS-1: messages of a project's devices that are kept until a sender has taken them.
    public static let upstreamKeptMax = 1_000_000
    /// UPS-1: when a device tries again while as many as may be are kept, in milliseconds. When
    /// senders take some of them, nobody knows.
    public static let upstreamFullMilliseconds: UInt32 = 10_000
    /// UPS-1: how long a device may repeat a message ID and is answered the same (24 h),
    public static let upstreamIDSeconds: UInt32 = 86_400
    /// and how many of its last IDs that holds for: its queue (DEV-4) five times over.
    public static let upstreamIDsPerInstanceMax = 100
    /// UPS-1: messages that one sender's connection has and has not acknowledged (Source: the flow
    /// control of the system that Martlet implements stops at 100 too).
    public static let upstreamWindow = 100
    /// UPS-1: how long a sender may take to acknowledge a message before another gets it, in
    /// seconds.
    public static let upstreamTakingSeconds: UInt32 = 60
    /// DEV-4: messages that wait in a device until the broker has them.
    public static let upstreamQueueMax = 20
    /// TTL-4: stream IDs that a device lists in HELLO as taken but not confirmed.
    public static let unconfirmedStreamIDsMax = 1024

    /// CON-3: what a project may raise its limit of distinct topics to.
    public static let conditionTopicsCeiling = 64
    /// CON-6: longest text of a condition, in bytes.
    public static let conditionBytesMax = 4096
    /// CON-6: deepest nesting of parentheses and `!`.
    public static let conditionDepthMax = 64
    /// REG-1: random bytes in a registration token (192 bits).
    public static let tokenRandomBytes = 24
    /// REG-4: tokens of before that still let an instance in, which is told its present one then.
    /// It misses more than that only where others rotate it while it is away.
    public static let formerTokensMax = 4
    /// REG-1: random bytes in a device key (256 bits).
    public static let deviceKeyRandomBytes = 32
    /// REG-5: random bytes in a server key (256 bits).
    public static let serverKeyRandomBytes = 32
    /// REG-1: longest project ID, in bytes (Source: Google Cloud project IDs are 6 to 30
    /// characters; Martlet takes 1 to 64 of `[a-z0-9-]`).
    public static let projectIDBytesMax = 64
    /// REG-1: longest app name (package name or bundle ID), in bytes.
    public static let appNameBytesMax = 255
    /// GW-8: how long a send is recognised whose connection ended before its answer was written, in
    /// seconds, unless the gateway is told otherwise. The official SDKs repeat a send after at most 60
    /// seconds; a program that starts again, or the gateway itself, gets as long again.
    public static let retryWindowSecondsDefault: UInt32 = 120
    /// GW-8: such sends that a gateway remembers, with their answers, which may have 25 KB each; of more the
    /// oldest is forgotten.
    public static let retriesRememberedMax = 10_000
    /// Longest name of a server key, in bytes.
    public static let keyNameBytesMax = 200
    /// Server keys of one project, revoked ones included: a list of them fits into one frame.
    public static let serverKeysPerProjectMax = 256
    /// REG-5: service-account keys of one project, revoked ones included: so too.
    public static let serviceAccountsPerProjectMax = 256
    /// REG-5: longest ID of a service-account key, in bytes.
    public static let serviceAccountIDBytesMax = 64
    /// REG-5: longest e-mail address of a service account, in bytes.
    public static let clientEmailBytesMax = 255
    /// REG-5: longest public key of a service account in DER, in bytes: RSA of 8192 bits and some.
    public static let publicKeyBytesMax = 2048
    /// REG-5: random bytes of what signs access tokens (256 bits).
    public static let accessTokenSecretBytes = 32
    /// REG-5: life of an access token unless the gateway is told otherwise, in seconds,
    public static let accessTokenSecondsDefault: UInt32 = 3600
    /// and the longest it can be told.
    public static let accessTokenSecondsMax: UInt32 = 86_400
    /// GW-1: the gateway's TCP port.
    public static let httpPort = 8080
    /// GW-1: longest body of a request, in bytes: 1000 tokens of another system, or the longest message
    /// with every character escaped.
    public static let httpBodyBytesMax = 512 * 1024
    /// OPS-5: bodies of all requests that have not been answered.
    public static let httpBodyMegabytesMax = 64
    /// OPS-5: longest head of a request, in bytes, and its header fields.
    public static let httpHeadBytesMax = 16 * 1024
    public static let httpHeaderFieldsMax = 100
    /// OPS-5: requests that the gateway answers at a time.
    public static let httpRequestsMax = 1024
    /// OPS-5: connections of the gateway.
    public static let httpConnectionsMax = 8192
    /// OPS-5: a connection that was silent for so many seconds is closed.
    public static let httpIdleSeconds: UInt32 = 120
    /// OPS-5: a request must have come whole after so many seconds, and its answer been read.
    public static let httpRequestSeconds: UInt32 = 30
    /// OPS-5: a TLS handshake must be over after so many seconds.
    public static let httpHandshakeSeconds: UInt32 = 10
    /// When a caller is told to come back that found the gateway full, in milliseconds.
    public static let httpFullMilliseconds: UInt32 = 1000
    /// Apps in one project: an audience by app fits into one frame.
    public static let appsPerProjectMax = 512
    /// MSG-2: key-value pairs in a data message.
    public static let dataEntriesMax = 256
    /// NET-4: apps of one device that may share a connection.
    public static let appsPerConnectionMax = 64
    /// NET-3: longest frame a device may send, in bytes after the length field.
    public static let deviceFrameBytesMax = 16 * 1024
    /// NET-3: longest frame a sender or administrator may send, in bytes after the length field.
    /// Room for 10,000 tokens of 32 characters, with a count and a kind each, and the longest message.
    public static let senderFrameBytesMax = 512 * 1024
    /// NET-3: longest frame the broker sends, in bytes after the length field.
    public static let brokerFrameBytesMax = 256 * 1024
    /// Entries in one page of a list (TOP-9).
    public static let pageEntriesMax = 1000
    /// NET-1: Martlet's TCP port.
    public static let defaultPort = 5228
    /// NET-2: an idle connection is closed after this many seconds.
    public static let idleSecondsDefault: UInt32 = 1800
    /// NET-3: a connection that has not said hello by then is closed.
    public static let handshakeSecondsDefault: UInt32 = 10
    /// Topics in one subscribe or unsubscribe request of a device.
    public static let topicsPerDeviceRequestMax = 100
}
