// SPDX-License-Identifier: Apache-2.0
//
// Every documented limit, stated once: what it counts, in which unit, why it has its value, and in brackets the row of the
// specification that it belongs to. The first group is documented elsewhere, mostly for Firebase Cloud Messaging (FCM below;
// Source: its documentation, "Topic messaging", "Throttling and quotas", "About FCM messages"). The second group bounds
// Martlet itself: every queue, table and loop has a bound. Rests on nothing.
//
// A new limit is stated here, unless one part alone has it: a cluster (ClusterLimits), a link between nodes (NodeLimits), the
// door to push services (BridgeLimits), XMPP (XMPPLimits) or TLS (TLSLimits). If an operator may change it, BrokerLimits has
// the value in force; if a project may have its own, ProjectLimits has that.

/// Documented limits. Sizes are in bytes and times in seconds, unless the name says otherwise.
public enum Limits {
    // MARK: Limits that FCM and other push services document

    /// Longest topic name, in bytes (TOP-2). The pattern for names in FCM's discovery document ends in `{1,900}`.
    public static let topicNameBytesMax = 900
    /// Topics that one instance may subscribe to (TOP-3). FCM's documented limit.
    public static let topicsPerInstanceMax = 2000
    /// Tokens in one topic management request (TOP-4). FCM's documented limit, which its SDKs check too.
    public static let tokensPerTopicRequestMax = 1000
    /// Different topics in one condition, unless the project raises it (CON-3). FCM's documented limit.
    public static let conditionTopicsMax = 5
    /// Payload of a message, in UTF-8 bytes of notification texts and data (MSG-3). FCM's documented limit. Its error
    /// texts say 4096, so a message that passes here passes there too.
    public static let payloadBytesMax = 4000
    /// Channels of a Web Push user agent (GW-13). A UnifiedPush distributor has one for each app of its phone, and a
    /// browser one for each site, so some have a thousand.
    public static let agentChannelsMax = 4096
    /// Device token of Apple's push service, in bytes (GW-11). Today's tokens have 32, and Apple reserves longer ones:
    /// "APNs device tokens are of variable length. Do not hard-code their size."
    public static let apnsTokenBytesMax = 128
    /// URL of a Web Push subscription, in bytes (GW-11). Today's push services use a few hundred.
    public static let webPushEndpointBytesMax = 2048
    /// A user agent's public key, in bytes (GW-11). RFC 8291 asks for an uncompressed point of P-256: 1 + 32 + 32.
    public static let webPushPublicKeyBytes = 65
    /// A user agent's authentication secret, in bytes (GW-11). RFC 8291 fixes the size.
    public static let webPushSecretBytes = 16
    /// Keys of a project for one push service (GW-11). Old keys stay only until the service takes the new ones, so two
    /// are usual.
    public static let bridgeKeysPerServiceMax = 8
    /// Reasons for refusals that a message's report tells apart (GW-11). Apple documents some thirty; more are counted as
    /// one.
    public static let refusalReasonsMax = 32
    /// Text of one reason for a refusal, in bytes (GW-11). Apple's have up to 30.
    public static let refusalReasonBytesMax = 64
    /// Body of an opaque message, in bytes (MSG-11). RFC 8030, section 7.2: a push service must take 4096.
    public static let opaqueBytesMax = 4096
    /// Longest and default time to live of a stored message, in seconds (TTL-1). FCM's documented limit: four weeks.
    public static let timeToLiveSecondsMax: UInt32 = 2_419_200

    /// Seconds by which an expiration instant may lie beyond the longest time to live (TTL-1): two days. Some platforms'
    /// SDKs ask for 30 days by default, and the broker stores such a message for 28.
    public static let expirationSpareSeconds: UInt32 = 172_800

    /// Collapse keys stored for one instance (COL-3). FCM's documented limit.
    public static let collapseKeysPerInstanceMax = 4
    /// Collapsible messages that one app on one device gets at once (COL-4). FCM's documented limit.
    public static let collapsibleBurst = 20
    /// Seconds until one further collapsible message is allowed after the burst (COL-4). FCM documents one every three
    /// minutes.
    public static let collapsibleRefillSeconds = 180
    /// Non-collapsible messages stored for one instance (STO-1). FCM's documented limit.
    public static let storedPerInstanceMax = 100
    /// Seconds since its last connection after which an instance is inactive (STO-2). FCM documents a month; we count 30
    /// days.
    public static let inactiveSeconds = 2_592_000
    /// Seconds for which an inactive instance can still learn that a message was discarded (STO-2). FCM documents four
    /// weeks after the last such message.
    public static let discardNoticeSeconds = 2_419_200
    /// Messages to one device per minute (QUO-1). FCM's documented limit.
    public static let deviceMessagesPerMinute = 240
    /// Messages to one device per hour (QUO-1). FCM's documented limit.
    public static let deviceMessagesPerHour = 5000
    /// Connections that a project's senders may open per minute (QUO-3). FCM's documented limit for XMPP.
    public static let senderConnectionsPerMinute = 400
    /// Connections that a project's senders may have open at a time (QUO-3). FCM's documented limit for XMPP.
    public static let senderConnectionsMax = 2500
    /// Messages that one device sends to its project per minute (QUO-2). FCM's documented limit.
    public static let deviceUpstreamPerMinute = 1000
    /// Messages that all devices of a project send to it per minute (QUO-2). FCM's documented limit.
    public static let upstreamPerMinute = 1_500_000
    /// Subscription changes of a project per second (TOP-6, QUO-4). FCM's documented limit.
    public static let topicChangesPerSecond = 3000
    /// Seconds for which a repeated idempotency key is recognised (MSG-9): a day. A sender that failed in the evening can
    /// be repaired and run again the next day.
    public static let idempotencySeconds: UInt32 = 86_400

    /// Members of one group (GRP-2). FCM's documented limit.
    public static let groupMembersMax = 20

    /// Fanouts of one project in progress (FAN-1, QUO-5). FCM's documented limit.
    public static let fanoutsInProgressMax = 1000

    // MARK: Martlet's own bounds

    /// Highest limit of topics per instance that can be configured (TOP-3): ten times FCM's. Unregistering leaves all
    /// topics of an instance in one transaction, which must stay short.
    static let topicsPerInstanceCeiling = 20_000
    /// Highest limit of tokens per topic request that can be configured (TOP-4): ten times FCM's. The tokens of a request
    /// fit into one frame, and so do its failures.
    static let tokensPerTopicRequestCeiling = 10_000
    /// Highest limit of members of a group that can be configured (GRP-2). All members fit into one row and one frame.
    public static let groupMembersCeiling = 1000
    /// Highest payload limit that can be configured, in bytes (MSG-3). A device's message with 256 entries has at most 2
    /// KiB beside its payload, so it fits into the device's frame of 16 KiB.
    public static let payloadBytesCeiling = 12 * 1024
    /// Longest time to live that can be configured, in seconds (TTL-1): 365 days. It must be less than the 400 days for
    /// which a project's daily counts are kept.
    public static let timeToLiveSecondsCeiling: UInt32 = 31_536_000
    /// Highest value of a configurable limit without a ceiling of its own (OPS-2). It fits into the 32 bits that a
    /// project's row has for a value.
    public static let limitCeiling = 1_000_000_000

    /// Longest name of a group, in bytes (GRP-1). FCM documents none. App servers use a user's ID or e-mail address,
    /// which have up to 254.
    public static let groupNameBytesMax = 255
    /// Length of a notification key, in bytes (GRP-1): 16 random ones and a checksum of 8. It looks like a registration
    /// token, as FCM's does.
    public static let groupKeyBytes = 24
    /// Random bytes in a notification key (GRP-1): 128 bits. Nobody guesses one, and the key authorises no change of the
    /// group.
    public static let groupKeyRandomBytes = 16
    /// Tokens in one request that changes a group, repeated ones included (GRP-2). As many as the largest group has that
    /// can be configured.
    public static let tokensPerGroupRequestMax = 1000
    /// Groups that one instance may be a member of (REG-3). Unregistering leaves all groups in one transaction, which
    /// must stay short; people have a few.
    public static let groupsPerInstanceMax = 1000
    /// Tokens among the targets of one multicast message (MSG-1). As many as fit into a sender's frame.
    public static let multicastTokensMax = 10_000
    /// Topics, conditions and groups among the targets of one multicast message, each a set of instances (MSG-1). The
    /// broker makes each set anew within one transaction.
    public static let multicastSetsMax = 100

    /// Fanouts of one project that wait because too many are in progress (FAN-1): ten times as many as those. Further
    /// sends are refused, because they would start too late to be of use.
    public static let fanoutsDeferredMax = 10_000
    /// Memory for one project's fanouts in progress, in MiB (FAN-1). Enough for 200 recipient sets over ten million
    /// instances, at 1.2 MiB each; further fanouts wait.
    public static let fanoutMegabytesPerProjectMax = 256
    /// Memory for all projects' fanouts in progress, in MiB (FAN-1). Four projects can use up their own part.
    public static let fanoutMegabytesMax = 1024
    /// Memory for frames queued to the devices and senders of one project, in MiB (FAN-6, OPS-5). Above it the project's
    /// fanouts and mailboxes wait, and connections that do not read are closed. 128 sessions fill it with full queues of
    /// 512 KiB.
    public static let frameMegabytesPerProjectMax = 64
    /// Memory for queued frames of all projects, in MiB (OPS-5). Four projects can use up their own part.
    public static let frameMegabytesMax = 256
    /// Unanswered bytes of one connection (NET-3, OPS-5). At the bound the loop stops reading from it. A sender has two
    /// of its longest frames on their way, so the next one comes while the last is worked on.
    public static let requestBytesPerConnectionMax = 1 << 20
    /// Unanswered bytes of all connections of one project, in MiB (OPS-5). 64 connections at their own bound fill it;
    /// further requests are refused.
    public static let requestMegabytesPerProjectMax = 64
    /// Unanswered bytes of all projects, in MiB (OPS-5). Four projects can use up their own part.
    public static let requestMegabytesMax = 256
    /// Memory for peers without a credential, in MiB: unfinished frames, and registrations that are not on disk yet
    /// (NET-6). A quarter of what one project may hold.
    public static let strangerMegabytesMax = 16
    /// Connections of one address without WELCOME (NET-6). More than the 10,000 devices behind one address that come back
    /// at once.
    public static let handshakesPerAddressMax = 16_384
    /// Bytes queued for a peer without a credential (NET-6). At the bound the loop stops reading from it. Such a peer is
    /// told little more than an error, which has some hundred bytes.
    public static let strangerQueuedBytesMax = 4096
    /// Seconds in which a frame must arrive, from its first byte to its last, by default (NET-6). A sender's longest
    /// frame takes that long at 17 KB a second, and a device's at half a kilobyte.
    public static let frameSecondsDefault: UInt32 = 30
    /// Registrations of one address per second, on average (REG-8). An address that registered no device lately may
    /// register 100 times as many at once: 10,000 new devices behind one address.
    public static let registrationsPerSecondPerAddress = 100
    /// Wrong credentials of one address per minute, after which further ones wait (REG-10). People mistype a few; a
    /// program that guesses is slowed down.
    public static let refusalsPerMinutePerAddress = 20
    /// Largest weight of a project relative to other projects (FAN-2). A turn is 64 deliveries times the weight, so the
    /// longest has 64,000.
    public static let projectWeightMax = 1000
    /// Highest ceiling that can be configured, in deliveries per second (FAN-7). Far above what a machine delivers, and
    /// small enough that the bucket's products fit into 64 bits.
    public static let deliveriesPerSecondMax = 100_000_000

    /// Longest idempotency key, in bytes (MSG-9). A UUID has 36 and a SHA-256 in hexadecimal digits 64, which leaves room
    /// for a prefix.
    public static let idempotencyKeyBytesMax = 128
    /// Longest collapse key, in bytes (COL-1). An app's name, of up to 255, serves as a key too (COL-2).
    public static let collapseKeyBytesMax = 256
    /// Longest encoded platform block, in bytes, with its overrides and free-form parts (MSG-5). As much as Apple takes
    /// for a whole notification. A payload limit above the documented one adds the difference, because a block can hold
    /// the whole payload.
    public static let platformBlockBytesMax = 4096
    /// Seconds by which a message may be scheduled ahead (MSG-10): 28 days. As long as a message may live after that.
    public static let scheduleSecondsMax: UInt32 = 2_419_200
    /// Scheduled messages of one project that wait (MSG-10). More than two for each minute of 28 days.
    public static let scheduledPerProjectMax = 100_000
    /// Seconds after a message's acceptance in which receipts are taken (RCP-1): 28 days. A device cannot have the
    /// message later, unless the project's messages may live longer; then as long.
    public static let receiptsWantedSeconds: UInt32 = 2_419_200
    /// Receipts kept for one project until a sender takes them (RCP-1). At ten per second, a sender can be away for a
    /// day; then the oldest are removed.
    public static let receiptsPerProjectMax = 1_000_000
    /// Seconds for which the report of a single message is kept (REP-1): 28 days. Nothing changes after the longest time
    /// to live.
    public static let reportSeconds = 2_419_200
    /// Reports of single messages kept for one project (REP-1). One message every 2.4 seconds for 28 days; past that, the
    /// oldest are removed.
    public static let reportsPerProjectMax = 1_000_000
    /// Days for which a project's daily counts are kept (REP-1). A year and a month, so this month can be compared with
    /// the same one a year ago.
    public static let reportDaysMax = 400
    /// Days that one question about a project's reports may span (REP-1). Ten years, for brokers that keep all counts.
    public static let reportDaysAskedMax = 3660
    /// Longest message ID that a device may choose, in bytes (UPS-1). A UUID has 36.
    public static let upstreamIDBytesMax = 128
    /// Messages from a project's devices, kept until a sender takes them (UPS-1). At a kilobyte each they take a gigabyte
    /// of disk; further ones are refused.
    public static let upstreamKeptMax = 1_000_000
    /// Milliseconds after which a device tries again while `upstreamKeptMax` messages are kept (UPS-1). The broker cannot
    /// predict when senders take messages, and devices must not ask all the time.
    public static let upstreamFullMilliseconds: UInt32 = 10_000
    /// Seconds for which a device's repeated message ID gets the first answer again (UPS-1): a day. FCM lets an upstream
    /// message live as long.
    public static let upstreamIDSeconds: UInt32 = 86_400
    /// Message IDs remembered for one instance (UPS-1). Five times the capacity of the device's queue (DEV-4).
    public static let upstreamIDsPerInstanceMax = 100
    /// Unacknowledged upstream messages of one sender's connection, its window (UPS-1). FCM's flow control stops at as
    /// many.
    public static let upstreamWindow = 100
    /// Seconds that a sender may take to acknowledge an upstream message (UPS-1). A sender that needs longer is stuck or
    /// gone, and the message goes to another one.
    public static let upstreamTakingSeconds: UInt32 = 60
    /// Upstream messages that wait in a device's queue until the broker has accepted them (DEV-4). As many as in FCM's
    /// Android client.
    public static let upstreamQueueMax = 20
    /// Stream IDs that HELLO may list as taken by the application but unconfirmed (TTL-4). They take 8 KiB, half of a
    /// device's frame.
    public static let unconfirmedStreamIDsMax = 1024

    /// Highest limit of different topics in a condition that a project may set (CON-3). With names of 48 bytes, 64 terms
    /// fill the longest text.
    public static let conditionTopicsCeiling = 64
    /// Longest text of a condition, in bytes (CON-6). Four terms with the longest topic names fit, or 64 with names of 48
    /// bytes.
    public static let conditionBytesMax = 4096
    /// Deepest nesting of parentheses and `!` (CON-6). One level for each topic that a condition may name, and a bound on
    /// the parser's stack.
    public static let conditionDepthMax = 64
    /// Random bytes in a registration token (REG-1): 192 bits. REG-1 asks for 128, and 24 bytes are 32 characters of
    /// Base64URL without padding.
    public static let tokenRandomBytes = 24
    /// Former tokens that still let an instance in; the broker then tells it the present one (REG-4). An instance falls
    /// further behind only if someone else rotates its token repeatedly while it is offline.
    public static let formerTokensMax = 4
    /// Random bytes in a device key (REG-1): 256 bits. As many as the SHA-256 digest that is stored of it.
    public static let deviceKeyRandomBytes = 32
    /// Random bytes in a server key (REG-5): 256 bits. As many as the SHA-256 digest that is stored of it.
    public static let serverKeyRandomBytes = 32
    /// Longest project ID, in bytes (REG-1). Google Cloud's have 6 to 30 characters; Martlet takes 1 to 64 of
    /// `[a-z0-9-]`.
    public static let projectIDBytesMax = 64
    /// Longest app name (package name or bundle ID), in bytes (REG-1). Real ones have some dozens, and 512 of the longest
    /// fit into one frame.
    public static let appNameBytesMax = 255
    /// Seconds for which the gateway recognises a repeated send after a connection ended before the answer was written,
    /// by default (GW-8). The official SDKs repeat a send after at most 60 seconds. The other 60 are for a restart of the
    /// client program or of the gateway.
    public static let retryWindowSecondsDefault: UInt32 = 120
    /// Unanswered sends that a gateway remembers, so that their retries are recognised (GW-8). With answers of up to 25
    /// KB each they take 250 MB at most; past the bound, the oldest is forgotten.
    public static let retriesRememberedMax = 10_000
    /// Registered instances of one project (REG-8). Ten million is the size that the store is measured with.
    public static let instancesPerProjectMax = 10_000_000
    /// Registrations of new devices in one project per second (REG-8). The committer registers several times as many, so
    /// a flood in one project leaves time for the others.
    public static let registrationsPerSecond = 3000
    /// Registration keys of one project, revoked keys included (REG-7). A list of all keys fits into one frame.
    public static let registrationKeysPerProjectMax = 256
    /// Ticket keys of one project, revoked keys included (REG-7). An app's server has one or two at a time, and changes
    /// them rarely.
    public static let ticketKeysPerProjectMax = 64
    /// Shortest secret of a ticket key, in bytes (REG-7). RFC 7518, section 3.2: at least as long as the hash, which has
    /// 256 bits.
    public static let ticketSecretBytesMin = 32
    /// Longest secret or public key of a ticket key, in bytes (REG-7). As PEM, the largest RSA key that is taken, of 4096
    /// bits, has 800.
    public static let ticketKeyBytesMax = 2048
    /// Longest ticket, in bytes (REG-7). Half of a device's longest frame, whose rest is for HELLO.
    public static let ticketBytesMax = 8 * 1024
    /// Seconds ahead that a ticket may expire (REG-7): a day. The store remembers a used ticket until then.
    public static let ticketSecondsMax = 86_400
    /// Topics in one ticket, and prefixes in a project's topic policy (TOP-10). A ticket of 8 KiB has room for 64 topics
    /// of 80 bytes.
    public static let topicGrantsMax = 64
    /// Topic changes that one device may make without a delay in between (TOP-11). One request of a device has as many.
    public static let deviceTopicBurst = 100
    /// Seconds until one further change is allowed after the burst (TOP-11). 3000 hostile devices at once would be needed
    /// to use up a project's 3000 changes per second.
    public static let deviceTopicRefillSeconds = 1
    /// Longest name of a key, in bytes (REG-5). A short sentence for people; 256 of them fit into one frame.
    public static let keyNameBytesMax = 200
    /// Server keys of one project, revoked keys included (REG-5). A list of all keys fits into one frame.
    public static let serverKeysPerProjectMax = 256
    /// Service-account keys of one project, revoked keys included (REG-5). A list of all keys fits into one frame.
    public static let serviceAccountsPerProjectMax = 256
    /// Longest ID of a service-account key, in bytes (REG-5). Google's have 40.
    public static let serviceAccountIDBytesMax = 64
    /// Longest e-mail address of a service account, in bytes (REG-5). RFC 5321 allows 254.
    public static let clientEmailBytesMax = 255
    /// Longest public key of a service account in DER, in bytes (REG-5). An RSA key of 8192 bits, with a margin.
    public static let publicKeyBytesMax = 2048
    /// Bytes of the random secret that signs access tokens (REG-5): 256 bits. As long as the hash.
    public static let accessTokenSecretBytes = 32
    /// Lifetime of an access token, in seconds, by default (REG-5). Google's live an hour too, and the SDKs ask for a new
    /// one before the end.
    public static let accessTokenSecondsDefault: UInt32 = 3600
    /// Longest lifetime of an access token that a gateway can be configured with, in seconds (REG-5): a day. A stolen one
    /// is of no use after that.
    public static let accessTokenSecondsMax: UInt32 = 86_400
    /// The gateway's TCP port (GW-1). The usual port for HTTP that needs no privilege.
    public static let httpPort = 8080
    /// Longest request for one message, in bytes (GW-1). Four forms of the longest message (for all, Android, APNs and
    /// browsers) with every character escaped have 100 KB. A longer request is refused unread, because parsing it would
    /// take the threads from others.
    public static let httpMessageBytesMax = 128 * 1024
    /// Longest body of an HTTP request, in bytes (GW-1). Enough for 1000 tokens in the format of another system, and for
    /// the longest message with every character escaped.
    public static let httpBodyBytesMax = 512 * 1024
    /// Bodies of all unanswered requests, in MiB (OPS-5). 128 of the longest fit; a send has a few kilobytes.
    public static let httpBodyMegabytesMax = 64
    /// Longest head of an HTTP request, in bytes (OPS-5). SDKs send about one kilobyte, most of it the access token.
    public static let httpHeadBytesMax = 16 * 1024
    /// Connections to the port of the metrics (OPS-10). Some collectors and probes ask every few seconds, each for
    /// milliseconds; the oldest connection makes room for the next.
    public static let metricsConnectionsMax = 64
    /// Longest credential that is read from `Authorization`, in bytes (GW-15). An access token has at most 512.
    public static let httpCredentialBytesMax = 1024
    /// Longest body of a request without a credential, in bytes (GW-15). An assertion of 8 KiB with its escapes.
    public static let httpStrangerBodyBytesMax = 16 * 1024
    /// Heads, bodies and unread answers of all unanswered requests without a right credential, in bytes (GW-15). 128 of
    /// the longest bodies and heads fit, and it is a quarter of what strangers may hold on the device port.
    public static let httpStrangerBytesMax = 4 << 20
    /// The part of one address in `httpStrangerBytesMax`, in bytes (GW-15). An eighth, so one address does not lock out
    /// the others.
    public static let httpStrangerBytesPerAddressMax = 512 * 1024
    /// Bytes that a request without a right credential counts beside its head, body and answer (GW-15). About what the
    /// server keeps for a request.
    public static let httpStrangerRequestBytes = 2048
    /// Open HTTP/2 streams of one connection without a right credential (GW-15). A client needs one for its token; after
    /// its first right credential it has the usual 100.
    public static let httpStrangerStreamsMax = 8
    /// HTTP/2 streams refused on one connection before the connection ends (GW-15). More than a client opens at once:
    /// SDKs open up to 100.
    public static let httpRefusedStreamsMax = 128
    /// Header fields of one HTTP request (OPS-5). SDKs send about ten, and proxies add a few.
    public static let httpHeaderFieldsMax = 100
    /// Requests that the gateway answers at a time (OPS-5). An eighth of the connections; a send takes milliseconds.
    public static let httpRequestsMax = 1024
    /// Open connections of the gateway (OPS-5). Three projects can have all the connections that their senders may have
    /// open.
    public static let httpConnectionsMax = 8192
    /// Open connections of one address (GW-15). A quarter of all, so one address leaves room for the others.
    public static let httpConnectionsPerAddressMax = 2048
    /// Seconds of silence after which an HTTP connection is closed (OPS-5). A client that sends every minute keeps its
    /// connection.
    public static let httpIdleSeconds: UInt32 = 120
    /// Seconds for receiving a whole request, and for the client to read the answer (OPS-5). The longest body takes that
    /// long at 17 KB a second.
    public static let httpRequestSeconds: UInt32 = 30
    /// Requests of one HTTP/1.1 connection that are read before the first of them is answered (OPS-5). Further ones wait
    /// unread. Few clients pipeline, and they gain nothing beyond some requests.
    public static let httpPipelinedMax = 16
    /// Bytes behind an unanswered request of one HTTP/1.1 connection (OPS-5). The largest record of TLS and a few reads.
    public static let httpHeldBytesMax = 64 * 1024
    /// TLS handshakes of one address at a time; further ones wait for their turn (GW-15). Each costs a core some 230 µs
    /// or more, so 64 are done within tenths of a second.
    public static let httpHandshakesPerAddressMax = 64
    /// Seconds for a TLS handshake (OPS-5). A packet that is lost three times is sent again within seven.
    public static let httpHandshakeSeconds: UInt32 = 10
    /// Milliseconds from GOAWAY to the end of an HTTP/2 connection without streams (NET-5). A long round trip, for
    /// requests that the client sent before it read GOAWAY.
    public static let httpFarewellMilliseconds: Int64 = 500
    /// Milliseconds that the end of a TLS connection waits for the peer's own end, in the gateway, over XMPP and to push
    /// services (NET-5). A client with the connection in a pool reads nothing and never answers, and RFC 8446, section
    /// 6.1, lets nobody wait.
    public static let tlsCloseMilliseconds: Int64 = 200
    /// Retry delay in the answer of a full gateway, in milliseconds (GW-6). A second is the least that `Retry-After` can
    /// say.
    public static let httpFullMilliseconds: UInt32 = 1000
    /// Users of the console (GW-9). Their list is one file that is written whole at each change, and these are the people
    /// of one operator.
    public static let consoleUsersMax = 1000
    /// Shortest password of a user of the console, in bytes (GW-9). NIST SP 800-63B asks for eight characters.
    public static let consolePasswordBytesMin = 8
    /// Longest password of a user of the console, in bytes (GW-9). NIST SP 800-63B asks for 64 characters at least, of up
    /// to four bytes each.
    public static let consolePasswordBytesMax = 256
    /// Open sessions of the console (GW-9). One for each user that there can be. A further session ends the one that was
    /// silent longest, of the user with most.
    public static let consoleSessionsMax = 1024
    /// Open sessions of one user of the console (GW-9). More browsers than a person uses. A further session ends the
    /// user's one that was silent longest.
    public static let consoleSessionsPerUserMax = 16
    /// Logins with a password that wait for their turn (GW-9). Each takes some 60 ms, so the last one waits four seconds.
    public static let consoleLoginsWaitingMax = 64
    /// Logins with a password of one network that wait for their turn (GW-9). Its part of the turns stays a sixteenth, so
    /// others sign in meanwhile.
    public static let consoleLoginsPerNetworkMax = 4
    /// Failures that are remembered: names whose wrong passwords are counted, each with the network of the attempt
    /// (GW-9). Four for each user that there can be; past that, the oldest is forgotten.
    public static let consoleFailuresMax = 4096
    /// Seconds without a request after which a session of the console ends (GW-9): an hour. Long enough for a meeting,
    /// and short enough for a screen that somebody left.
    public static let consoleIdleSeconds: Int64 = 3600
    /// Seconds after which a session of the console ends in any case (GW-9). A working day.
    public static let consoleSessionSeconds: Int64 = 12 * 3600
    /// Seconds for which a one-time link of the console can be opened (GW-9): an hour. Whoever asks for one uses it soon,
    /// and a forgotten one is worth nothing.
    public static let consoleLinkSeconds: Int64 = 3600
    /// Open event streams of the console, over all viewers (GW-9). Each holds a connection and up to 64 events of 20 KB:
    /// 80 MB together.
    public static let consoleStreamsMax = 64
    /// Open event streams of one session (GW-9). Tabs of one person.
    public static let consoleStreamsPerSessionMax = 8
    /// Open event streams of one user, over all sessions (GW-9). Two browsers with all their tabs.
    public static let consoleStreamsPerUserMax = 16
    /// Events that wait for a slow viewer; further ones are left out and counted (GW-9). A loss of the network for some
    /// seconds goes unnoticed at four events per second and project.
    public static let consoleEventsWaitingMax = 64
    /// Milliseconds for which the events of a project gather for the viewers of the console (GW-9). People see it as at
    /// once, and a busy project costs four events per second.
    public static let consoleGatherMilliseconds = 250
    /// Events of a project, but for sums, that gather for the viewers (GW-9). More lines than a person can read in a
    /// quarter of a second; further ones are left out and counted.
    public static let consoleProjectEventsMax = 16
    /// Projects in an event of the console, those with most fanouts and connections (GW-9). An event then has some 20 KB.
    public static let consoleProjectsPerEventMax = 100
    /// Seconds of history that the console keeps (GW-9). The charts show the last ten minutes.
    public static let consoleHistorySeconds = 600
    /// Characters of a message from the console, in all (MSG-3). FCM's documented limit for its composer.
    public static let composerCharactersMax = 1024
    /// Bytes of the log of administrators' actions, after which a new file begins and the file before is kept (GW-9).
    /// Some ten thousand entries of 200 bytes.
    public static let auditFileBytesMax = 2 << 20
    /// Entries of the log of actions that are waiting for a disk that hangs (GW-9). More than the people of a console do
    /// in minutes.
    public static let auditWaitingMax = 1000
    /// Milliseconds for which an answer of the console waits for its entry in the log (GW-9). A slow disk takes an entry
    /// in less.
    public static let auditWaitMilliseconds = 5000
    /// Bytes of lines that wait for a slow reader of the log (OPS-11). Some thousand lines, the cause of the trouble
    /// among them; further lines are only counted.
    public static let logQueueBytesMax = 1 << 20
    /// Milliseconds for which the end of a process waits for the reader of its log (OPS-11). A living reader takes a
    /// mebibyte in less, and service managers wait longer.
    public static let logFlushMilliseconds = 2000
    /// Milliseconds after the first signal from which another one ends the process at once (NET-5). Programs that send
    /// two signals send them within some 100 ms; a person who has waited this long means the second one.
    public static let laterSignalMilliseconds: Int64 = 3000
    /// Apps in one project (REG-8). An audience by app fits into one frame, at 270 bytes each.
    public static let appsPerProjectMax = 512
    /// Key-value entries in a message's data (MSG-2). With the longest payload that FCM takes, each then has some 15
    /// bytes; real ones have more.
    public static let dataEntriesMax = 256
    /// Apps of one device that may share a connection (NET-4). More than a phone's own push service serves, and few
    /// enough that a shared connection has a small state.
    public static let appsPerConnectionMax = 64
    /// Longest frame that a device may send, in bytes after the length field (NET-3). The largest payload that can be
    /// configured, and 4 KiB for what stands beside it.
    public static let deviceFrameBytesMax = 16 * 1024
    /// Longest frame that a sender or administrator may send, in bytes after the length field (NET-3). Enough for 10,000
    /// tokens of 32 characters, each with a count and a kind, and the longest message.
    public static let senderFrameBytesMax = 512 * 1024
    /// Longest frame that the broker sends, in bytes after the length field (NET-3). The longest answer that has no
    /// pages, an audience by 512 apps, has some 140 KB.
    public static let brokerFrameBytesMax = 256 * 1024
    /// Seconds without a request of its administrator after which a backup ends (OPS-7). Longer than a client needs to
    /// write a part to a slow disk.
    public static let backupIdleSeconds = 30
    /// Seconds without a request after which a backup gives way to another one (OPS-7). Its client asks again within
    /// milliseconds, so it has gone or has stopped.
    public static let backupYieldSeconds = 5
    /// Entries in one page of a list (TOP-9). The tokens of a page take some 30 KB, and the frame ends a page earlier if
    /// its entries are long.
    public static let pageEntriesMax = 1000
    /// Martlet's TCP port (NET-1). FCM's, which networks with a firewall already open.
    public static let defaultPort = 5228
    /// Further ports for networks that block the default port (NET-7). FCM documents the same.
    public static let fallbackPorts = [443, 5229, 5230]
    /// Seconds of silence after which a connection is closed, by default (NET-2). FCM asks networks for a NAT timeout of
    /// half an hour or more.
    public static let idleSecondsDefault: UInt32 = 1800
    /// Seconds after which a connection without HELLO is closed, by default (NET-3). A packet that is lost three times is
    /// sent again within seven.
    public static let handshakeSecondsDefault: UInt32 = 10
    /// Topics in one subscribe or unsubscribe request of a device (TOP-5). With the longest names they would have 90 KB,
    /// so the frame ends a request of long names earlier.
    public static let topicsPerDeviceRequestMax = 100
}
