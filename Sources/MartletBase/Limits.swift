// SPDX-License-Identifier: Apache-2.0
//
// Every documented limit, stated once, with the row of the specification that requires the limit. The first group
// describes Firebase Cloud Messaging as its public documentation does (Source: Firebase Cloud Messaging
// documentation, "Topic messaging", "Throttling and quotas", "About FCM messages"). The second group bounds Martlet
// itself: every queue, table and loop has a bound. Rests on nothing.

/// Documented limits. Sizes are in bytes and times in seconds, unless the name says otherwise.
public enum Limits {
    // MARK: Documented limits of the system that Martlet implements

    /// TOP-2: longest topic name, in bytes.
    public static let topicNameBytesMax = 900
    /// TOP-3: topics that one instance may subscribe to.
    public static let topicsPerInstanceMax = 2000
    /// TOP-4: tokens in one topic management request.
    public static let tokensPerTopicRequestMax = 1000
    /// CON-3: distinct topics in one condition, unless the project raises it.
    public static let conditionTopicsMax = 5
    /// MSG-3: payload of a message, in UTF-8 bytes of notification texts and data.
    public static let payloadBytesMax = 4000
    /// GW-13: channels of a Web Push user agent. Distributors of UnifiedPush have one for each app, some a thousand.
    public static let agentChannelsMax = 4096
    /// GW-11: bytes of a device token of Apple's push service. Today's tokens have 32 bytes, and Apple reserves longer
    /// ones: "APNs device tokens are of variable length. Do not hard-code their size."
    public static let apnsTokenBytesMax = 128
    /// GW-11: bytes of the URL of a Web Push subscription.
    public static let webPushEndpointBytesMax = 2048
    /// GW-11: bytes of a user agent's public key: an uncompressed point of P-256 (RFC 8291).
    public static let webPushPublicKeyBytes = 65
    /// GW-11: bytes of a user agent's authentication secret (RFC 8291).
    public static let webPushSecretBytes = 16
    /// GW-11: keys of a project for one push service. Old keys stay only until the service takes the new ones.
    public static let bridgeKeysPerServiceMax = 8
    /// GW-11: reasons of refusals that the report of a message tells apart. Apple documents some thirty.
    public static let refusalReasonsMax = 32
    /// GW-11: bytes of a reason of a refusal.
    public static let refusalReasonBytesMax = 64
    /// MSG-11: bytes of an opaque message. Source: RFC 8030, section 7.2: a push service takes 4096 bytes at least.
    public static let opaqueBytesMax = 4096
    /// TTL-1: longest and default time to live of a stored message (28 days).
    public static let timeToLiveSecondsMax: UInt32 = 2_419_200

    /// TTL-1: how far a message's expiration instant may lie beyond the longest time to live, in seconds (2 days). The
    /// default of SDKs of other platforms is 30 days. The broker still stores the message for the longest time to live.
    public static let expirationSpareSeconds: UInt32 = 172_800

    /// COL-3: collapse keys stored per instance.
    public static let collapseKeysPerInstanceMax = 4
    /// COL-4: collapsible messages that one app on one device receives without a delay in between.
    public static let collapsibleBurst = 20
    /// COL-4: after the burst, one further collapsible message is allowed in this many seconds.
    public static let collapsibleRefillSeconds = 180
    /// STO-1: non-collapsible messages stored per instance.
    public static let storedPerInstanceMax = 100
    /// STO-2: an instance is inactive when its last connection is longer ago than this (30 days).
    public static let inactiveSeconds = 2_592_000
    /// STO-2: how long the broker keeps the notice that a message to an inactive instance was discarded (28 days).
    public static let discardNoticeSeconds = 2_419_200
    /// QUO-1: messages to one device in a minute.
    public static let deviceMessagesPerMinute = 240
    /// QUO-1: messages to one device in an hour.
    public static let deviceMessagesPerHour = 5000
    /// QUO-3: connections that a project's senders may open in a minute.
    public static let senderConnectionsPerMinute = 400
    /// QUO-3: connections that a project's senders may have open at a time.
    public static let senderConnectionsMax = 2500
    /// QUO-2: messages that one device sends to its project in a minute.
    public static let deviceUpstreamPerMinute = 1000
    /// QUO-2: messages that all devices of a project send to it in a minute.
    public static let upstreamPerMinute = 1_500_000
    /// TOP-6, QUO-4: changes of a project's subscriptions in a second.
    public static let topicChangesPerSecond = 3000
    /// MSG-9: how long the broker recognises a repeated idempotency key, in seconds (24 h).
    public static let idempotencySeconds: UInt32 = 86_400

    /// GRP-2: members of one group.
    public static let groupMembersMax = 20

    /// FAN-1, QUO-5: fanouts in progress per project.
    public static let fanoutsInProgressMax = 1000

    // MARK: Martlet's own bounds

    /// TOP-3: highest limit of topics per instance that can be configured. Unregistering leaves all topics of an instance
    /// in one transaction.
    static let topicsPerInstanceCeiling = 20_000
    /// TOP-4: highest limit of tokens per topic request that can be configured: the tokens and the failures of a request
    /// fit into one frame each.
    static let tokensPerTopicRequestCeiling = 10_000
    /// GRP-2: highest limit of members of a group that can be configured: the members fit into one row and one frame.
    public static let groupMembersCeiling = 1000
    /// MSG-3: highest limit of a payload that can be configured. A device's message with 256 entries has at most 2 KiB
    /// beside its payload, so the message fits into the device's frame of 16 KiB.
    public static let payloadBytesCeiling = 12 * 1024
    /// TTL-1: longest time to live that can be configured: 365 days, less than the 400 days for which a project's daily
    /// counts are kept.
    public static let timeToLiveSecondsCeiling: UInt32 = 31_536_000
    /// OPS-2: highest value of a limit without a bound of its own.
    public static let limitCeiling = 1_000_000_000

    /// GRP-1: longest name of a group, in bytes.
    public static let groupNameBytesMax = 255
    /// GRP-1: length of a notification key, in bytes.
    public static let groupKeyBytes = 24
    /// GRP-1: random bytes in a notification key (128 bits).
    public static let groupKeyRandomBytes = 16
    /// GRP-2: tokens in one request that changes a group. Repeated tokens count.
    public static let tokensPerGroupRequestMax = 1000
    /// REG-3: groups that one instance may be a member of. Bounded because unregistering leaves all groups in one
    /// transaction.
    public static let groupsPerInstanceMax = 1000
    /// Tokens among the targets of one multicast message.
    public static let multicastTokensMax = 10_000
    /// Topics, conditions and groups among the targets of one multicast message. Bounded because the broker makes a
    /// set of instances for each.
    public static let multicastSetsMax = 100

    /// FAN-1: deferred messages per project.
    public static let fanoutsDeferredMax = 10_000
    /// FAN-1: memory for the fanouts of one project in progress, in MiB. Further fanouts wait. Enough for 200
    /// recipient sets over ten million instances.
    public static let fanoutMegabytesPerProjectMax = 256
    /// FAN-1: memory for the fanouts of all projects in progress, in MiB.
    public static let fanoutMegabytesMax = 1024
    /// FAN-6, OPS-5: memory for frames queued to the devices and senders of one project, in MiB. Above the bound,
    /// the project's fanouts and mailboxes wait, and connections that do not read are closed.
    public static let frameMegabytesPerProjectMax = 64
    /// OPS-5: memory for queued frames of all projects, in MiB.
    public static let frameMegabytesMax = 256
    /// NET-3, OPS-5: unanswered bytes of one connection. At the bound, the loop stops reading from the connection.
    public static let requestBytesPerConnectionMax = 1 << 20
    /// OPS-5: unanswered bytes of all connections of a project, in MiB. Above the bound, requests are refused.
    public static let requestMegabytesPerProjectMax = 64
    /// OPS-5: unanswered bytes of all projects, in MiB.
    public static let requestMegabytesMax = 256
    /// NET-6: memory for peers without a credential, in MiB: unfinished frames, and registrations that are not on disk
    /// yet. A quarter of what one project may hold.
    public static let strangerMegabytesMax = 16
    /// NET-6: connections of one address without WELCOME: more than the 10,000 devices behind one address that come
    /// back at once.
    public static let handshakesPerAddressMax = 16_384
    /// NET-6: bytes queued for a peer without a credential. At the bound, the loop stops reading from the connection.
    public static let strangerQueuedBytesMax = 4096
    /// NET-6: seconds in which a frame must arrive, from its first byte to its last, by default.
    public static let frameSecondsDefault: UInt32 = 30
    /// REG-8: registrations of one address in a second, on average. An address that has registered no device of late
    /// may register 100 times as many at once: 10,000 new devices behind one address.
    public static let registrationsPerSecondPerAddress = 100
    /// REG-10: wrong credentials of one address in a minute after which further ones wait.
    public static let refusalsPerMinutePerAddress = 20
    /// FAN-2: largest weight of a project relative to other projects.
    public static let projectWeightMax = 1000
    /// FAN-7: highest ceiling that can be configured, in deliveries per second.
    public static let deliveriesPerSecondMax = 100_000_000

    /// MSG-9: longest idempotency key, in bytes.
    public static let idempotencyKeyBytesMax = 128
    /// COL-1: longest collapse key, in bytes.
    public static let collapseKeyBytesMax = 256
    /// MSG-5: longest encoded platform block, in bytes, with its overrides and free-form parts. A payload limit above
    /// the documented one adds the difference, because a block can hold the whole payload.
    public static let platformBlockBytesMax = 4096
    /// MSG-10: how far ahead a message may be scheduled, in seconds (28 days).
    public static let scheduleSecondsMax: UInt32 = 2_419_200
    /// MSG-10: waiting scheduled messages of one project.
    public static let scheduledPerProjectMax = 100_000
    /// RCP-1: how long after a message's acceptance the broker takes its receipts, in seconds (28 days), or as long as
    /// the project's messages may live, if that is longer.
    public static let receiptsWantedSeconds: UInt32 = 2_419_200
    /// RCP-1: receipts kept for one project until a sender takes them. Past the bound, the oldest are removed.
    public static let receiptsPerProjectMax = 1_000_000
    /// REP-1: how long the report of a single message is kept, in seconds (28 days).
    public static let reportSeconds = 2_419_200
    /// REP-1: reports of single messages kept for one project. Past the bound, the oldest are removed.
    public static let reportsPerProjectMax = 1_000_000
    /// REP-1: how long a project's daily counts are kept, in days.
    public static let reportDaysMax = 400
    /// REP-1: days that one question about a project's reports may span.
    public static let reportDaysAskedMax = 3660
    /// UPS-1: longest message ID that a device may choose, in bytes.
    public static let upstreamIDBytesMax = 128
    /// UPS-1: messages from a project's devices, kept until a sender takes them.
    public static let upstreamKeptMax = 1_000_000
    /// UPS-1: retry delay for a device while `upstreamKeptMax` messages are kept, in milliseconds. The broker
    /// cannot predict when senders take messages.
    public static let upstreamFullMilliseconds: UInt32 = 10_000
    /// UPS-1: how long a repeated message ID of a device gets the first answer again (24 h).
    public static let upstreamIDSeconds: UInt32 = 86_400
    /// UPS-1: message IDs remembered for one device: five times the capacity of the device's queue (DEV-4).
    public static let upstreamIDsPerInstanceMax = 100
    /// UPS-1: unacknowledged upstream messages of one sender's connection (Source: the flow control of Firebase
    /// Cloud Messaging stops at 100 too).
    public static let upstreamWindow = 100
    /// UPS-1: how long a sender may take to acknowledge an upstream message, in seconds. After the delay the
    /// message goes to another sender.
    public static let upstreamTakingSeconds: UInt32 = 60
    /// DEV-4: messages that wait in a device until the broker has accepted them.
    public static let upstreamQueueMax = 20
    /// TTL-4: stream IDs that HELLO may list as taken by the application but unconfirmed.
    public static let unconfirmedStreamIDsMax = 1024

    /// CON-3: highest limit of distinct topics that a project may set.
    public static let conditionTopicsCeiling = 64
    /// CON-6: longest text of a condition, in bytes.
    public static let conditionBytesMax = 4096
    /// CON-6: deepest nesting of parentheses and `!`.
    public static let conditionDepthMax = 64
    /// REG-1: random bytes in a registration token (192 bits).
    public static let tokenRandomBytes = 24
    /// REG-4: former tokens that still let an instance in; the broker then tells the instance its present token. An
    /// instance falls further behind only if another party rotates its token repeatedly while the instance is
    /// offline.
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
    /// GW-8: how long the gateway recognises a repeated send after a connection ended before the answer was
    /// written, in seconds; the default. The official SDKs repeat a send after at most 60 seconds. The other 60
    /// seconds are for a restart of the client program or of the gateway.
    public static let retryWindowSecondsDefault: UInt32 = 120
    /// GW-8: unanswered sends that a gateway remembers, with their answers of up to 25 KB each. Past the bound, the
    /// oldest is forgotten.
    public static let retriesRememberedMax = 10_000
    /// REG-8: registered instances of one project. Ten million is the size that the store is measured with.
    public static let instancesPerProjectMax = 10_000_000
    /// REG-8: registrations of new devices in one project in a second. The committer registers several times as many,
    /// so a flood of one project leaves time for the others.
    public static let registrationsPerSecond = 3000
    /// REG-7: registration keys of one project, revoked keys included.
    public static let registrationKeysPerProjectMax = 256
    /// REG-7: ticket keys of one project, revoked keys included.
    public static let ticketKeysPerProjectMax = 64
    /// REG-7: shortest secret of a ticket key, in bytes (Source: RFC 7518, section 3.2: as long as the hash).
    public static let ticketSecretBytesMin = 32
    /// REG-7: longest secret or public key of a ticket key, in bytes: an RSA key of 8192 bits, with a margin.
    public static let ticketKeyBytesMax = 2048
    /// REG-7: longest ticket, in bytes: half of the longest frame of a device.
    public static let ticketBytesMax = 8 * 1024
    /// REG-7: how far ahead a ticket may expire, in seconds (24 h). The store remembers a used ticket until then.
    public static let ticketSecondsMax = 86_400
    /// TOP-10: prefixes in a project's topic policy, and topics in one ticket.
    public static let topicGrantsMax = 64
    /// TOP-11: changes of subscriptions that one device may make without a delay in between.
    public static let deviceTopicBurst = 100
    /// TOP-11: after the burst, one further change is allowed in this many seconds.
    public static let deviceTopicRefillSeconds = 1
    /// Longest name of a server key, in bytes.
    public static let keyNameBytesMax = 200
    /// Server keys of one project, revoked keys included. A list of all keys fits into one frame.
    public static let serverKeysPerProjectMax = 256
    /// REG-5: service-account keys of one project, revoked keys included. A list of all keys fits into one frame.
    public static let serviceAccountsPerProjectMax = 256
    /// REG-5: longest ID of a service-account key, in bytes.
    public static let serviceAccountIDBytesMax = 64
    /// REG-5: longest e-mail address of a service account, in bytes.
    public static let clientEmailBytesMax = 255
    /// REG-5: longest public key of a service account in DER, in bytes: an RSA key of 8192 bits, with a margin.
    public static let publicKeyBytesMax = 2048
    /// REG-5: random bytes in the secret that signs access tokens (256 bits).
    public static let accessTokenSecretBytes = 32
    /// REG-5: default lifetime of an access token, in seconds.
    public static let accessTokenSecondsDefault: UInt32 = 3600
    /// REG-5: longest lifetime of an access token that a gateway can be configured with, in seconds (24 h).
    public static let accessTokenSecondsMax: UInt32 = 86_400
    /// GW-1: the gateway's TCP port.
    public static let httpPort = 8080
    /// GW-1: longest request for one message, in bytes: four forms of the longest message (for all, Android, APNs and browsers)
    /// with every character escaped have 100 KB. A longer one is refused unread, because parsing it would take the threads from
    /// others.
    public static let httpMessageBytesMax = 128 * 1024
    /// GW-1: longest body of an HTTP request, in bytes. Enough for 1000 tokens in the format of another system, and
    /// for the longest message with every character escaped.
    public static let httpBodyBytesMax = 512 * 1024
    /// OPS-5: bodies of all unanswered requests, in MiB.
    public static let httpBodyMegabytesMax = 64
    /// OPS-5: longest head of an HTTP request, in bytes.
    public static let httpHeadBytesMax = 16 * 1024
    /// OPS-10: connections to the port of the metrics. Some collectors and probes ask every few seconds, each for
    /// milliseconds; the oldest connection makes room for the next.
    public static let metricsConnectionsMax = 64
    /// GW-15: longest credential that is read from `Authorization`, in bytes. An access token has at most 512.
    public static let httpCredentialBytesMax = 1024
    /// GW-15: longest body of a request without a credential, in bytes: an assertion of 8 KiB with its escapes.
    public static let httpStrangerBodyBytesMax = 16 * 1024
    /// GW-15: heads, bodies and unread answers of all unanswered requests without a right credential, in bytes.
    public static let httpStrangerBytesMax = 4 << 20
    /// GW-15: the part of one address in `httpStrangerBytesMax`.
    public static let httpStrangerBytesPerAddressMax = 512 * 1024
    /// GW-15: bytes that a request without a right credential counts beside its head, body and answer: about what the
    /// server keeps for a request.
    public static let httpStrangerRequestBytes = 2048
    /// GW-15: open HTTP/2 streams of one connection without a right credential.
    public static let httpStrangerStreamsMax = 8
    /// GW-15: HTTP/2 streams refused on one connection before the connection ends: more than a client opens at once.
    public static let httpRefusedStreamsMax = 128
    /// OPS-5: header fields of one HTTP request.
    public static let httpHeaderFieldsMax = 100
    /// OPS-5: requests that the gateway answers at a time.
    public static let httpRequestsMax = 1024
    /// OPS-5: open connections of the gateway.
    public static let httpConnectionsMax = 8192
    /// GW-15: open connections of one address.
    public static let httpConnectionsPerAddressMax = 2048
    /// OPS-5: an HTTP connection is closed after this many seconds of silence.
    public static let httpIdleSeconds: UInt32 = 120
    /// OPS-5: seconds for receiving a whole request, and for the client to read the answer.
    public static let httpRequestSeconds: UInt32 = 30
    /// OPS-5: requests of one HTTP/1.1 connection that are read before the first of them is answered. Further ones wait
    /// unread.
    public static let httpPipelinedMax = 16
    /// OPS-5: bytes behind an unanswered request of one HTTP/1.1 connection: the largest record of TLS and a few reads.
    public static let httpHeldBytesMax = 64 * 1024
    /// GW-15: TLS handshakes of one address at a time; further ones wait for their turn.
    public static let httpHandshakesPerAddressMax = 64
    /// OPS-5: seconds for a TLS handshake.
    public static let httpHandshakeSeconds: UInt32 = 10
    /// NET-5: milliseconds from GOAWAY to the end of an HTTP/2 connection without streams: a long round trip, for
    /// requests that the client sent before it read GOAWAY.
    public static let httpFarewellMilliseconds: Int64 = 500
    /// NET-5: milliseconds that the end of a TLS connection waits for the peer's own end, in the gateway, over XMPP and to
    /// push services. A client with the connection in a pool reads nothing and never answers, and RFC 8446, section 6.1,
    /// lets nobody wait.
    public static let tlsCloseMilliseconds: Int64 = 200
    /// Retry delay in the answer of a full gateway, in milliseconds.
    public static let httpFullMilliseconds: UInt32 = 1000
    /// GW-9: users of the console.
    public static let consoleUsersMax = 1000
    /// GW-9: shortest and longest password of a user of the console, in bytes.
    public static let consolePasswordBytesMin = 8
    public static let consolePasswordBytesMax = 256
    /// GW-9: open sessions of the console. A further session ends the one that was silent longest, of the user with most.
    public static let consoleSessionsMax = 1024
    /// GW-9: open sessions of one user of the console. A further session ends the user's one that was silent longest.
    public static let consoleSessionsPerUserMax = 16
    /// GW-9: logins with a password that wait for their turn, in all and of one network.
    public static let consoleLoginsWaitingMax = 64
    public static let consoleLoginsPerNetworkMax = 4
    /// GW-9: names, with the network of an attempt, whose wrong passwords are counted.
    public static let consoleFailuresMax = 4096
    /// GW-9: a session of the console ends after this many seconds without a request.
    public static let consoleIdleSeconds: Int64 = 3600
    /// GW-9: a session of the console ends after this many seconds in any case: a working day.
    public static let consoleSessionSeconds: Int64 = 12 * 3600
    /// GW-9: a one-time link opens a session for this many seconds.
    public static let consoleLinkSeconds: Int64 = 3600
    /// GW-9: open event streams of the console, over all viewers.
    public static let consoleStreamsMax = 64
    /// GW-9: open event streams of one session: tabs of one person.
    public static let consoleStreamsPerSessionMax = 8
    /// GW-9: open event streams of one user, over all sessions.
    public static let consoleStreamsPerUserMax = 16
    /// GW-9: events that wait for a slow viewer; further ones are left out and counted.
    public static let consoleEventsWaitingMax = 64
    /// GW-9: milliseconds for which the events of a project gather for the viewers of the console.
    public static let consoleGatherMilliseconds = 250
    /// GW-9: events of a project, but for sums, that gather for the viewers; further ones are left out and counted.
    public static let consoleProjectEventsMax = 16
    /// GW-9: projects in an event of the console, those with most fanouts and connections: an event has some 20 KB.
    public static let consoleProjectsPerEventMax = 100
    /// GW-9: seconds of history that the console keeps.
    public static let consoleHistorySeconds = 600
    /// MSG-3: characters of a message from the console, in all.
    public static let composerCharactersMax = 1024
    /// GW-9: bytes of the log of administrators' actions, after which a new file begins; the file before is kept.
    public static let auditFileBytesMax = 2 << 20
    /// GW-9: entries of that log that wait for a disk that hangs: more than the people of a console do in minutes.
    public static let auditWaitingMax = 1000
    /// GW-9: milliseconds for which an answer of the console waits for its entry. A slow disk takes an entry in less.
    public static let auditWaitMilliseconds = 5000
    /// OPS-11: bytes of lines that wait for a slow reader of the log: some thousand lines, the cause of the trouble among
    /// them. Further lines are counted only.
    public static let logQueueBytesMax = 1 << 20
    /// OPS-11: milliseconds for which the end of a process waits for the reader of its log.
    public static let logFlushMilliseconds = 2000
    /// NET-5: a signal this many milliseconds after the first one ends the process at once. Programs that send two signals
    /// send them within some 100 ms; a person who has waited this long means the second one.
    public static let laterSignalMilliseconds: Int64 = 3000
    /// REG-8: apps in one project. An audience by app fits into one frame.
    public static let appsPerProjectMax = 512
    /// MSG-2: key-value pairs in a data message.
    public static let dataEntriesMax = 256
    /// NET-4: apps of one device that may share a connection.
    public static let appsPerConnectionMax = 64
    /// NET-3: longest frame a device may send, in bytes after the length field.
    public static let deviceFrameBytesMax = 16 * 1024
    /// NET-3: longest frame a sender or administrator may send, in bytes after the length field. Enough for 10,000
    /// tokens of 32 characters, each with a count and a kind, and the longest message.
    public static let senderFrameBytesMax = 512 * 1024
    /// NET-3: longest frame the broker sends, in bytes after the length field.
    public static let brokerFrameBytesMax = 256 * 1024
    /// OPS-7: seconds after which a backup ends that its administrator asks nothing of: longer than a client needs to write
    /// a part to a slow disk.
    public static let backupIdleSeconds = 30
    /// OPS-7: seconds without a request after which a backup gives way to another one: its client asks again within
    /// milliseconds, and has gone or has stopped.
    public static let backupYieldSeconds = 5
    /// TOP-9: entries in one page of a list.
    public static let pageEntriesMax = 1000
    /// NET-1: Martlet's TCP port.
    public static let defaultPort = 5228
    /// NET-7: further ports for networks that block the default port.
    public static let fallbackPorts = [443, 5229, 5230]
    /// NET-2: an idle connection is closed after this many seconds, by default.
    public static let idleSecondsDefault: UInt32 = 1800
    /// NET-3: a connection without HELLO is closed after this many seconds, by default.
    public static let handshakeSecondsDefault: UInt32 = 10
    /// Topics in one subscribe or unsubscribe request of a device.
    public static let topicsPerDeviceRequestMax = 100
}
