// SPDX-License-Identifier: Apache-2.0
//
// The bounds of the door to foreign push services, each with its reason. Rests on nothing.

/// Bounds of the door to push services. Sizes are in bytes and times in seconds, unless the name says otherwise.
public enum BridgeLimits {
    // MARK: What waits in memory

    /// Messages of a project that wait in the door: to be handed over, on their way, or to be tried again (GW-11). Past
    /// that, the door reads no more of the project's messages, and they wait in the store. For each message 1.6 KB are
    /// kept beside its own bytes (`make bench`), so a project waits with 12 MB at most.
    public static let waitingPerProjectMax = 2048
    /// Messages of all projects that are waiting in the door (GW-11). Eight projects can use up their own room; past
    /// that, all have equal parts.
    public static let waitingMax = 16_384
    /// Messages of a project on their way to a push service (GW-11). Apple allows a thousand streams on a connection; the
    /// service's own bound counts where it is lower. Each takes 32 KB (`make bench`), most of it in the HTTP client.
    static let onTheirWayPerProjectMax = 256
    /// Messages of all projects on their way to push services (GW-11). At 32 KB each they take 32 MB.
    static let onTheirWayMax = 1024
    /// Instances that the door reads from the store in a step (GW-11). As many as messages of a project may be on their
    /// way.
    static let instancesPerStep = 256

    // MARK: Times

    /// Seconds before a message is tried again for the first time (GW-11). Each further delay is twice as long, with
    /// jitter, so a short fault costs little and a long one few requests.
    public static let retrySeconds: Double = 1
    /// Consecutive failures (answers without a taken message) after which a project rests, and failed attempts in a row
    /// after which a message is set aside (GW-11, GW-17). Fewer are chance.
    public static let failuresPerRest = 16
    /// Failing messages by which a failure is the service's (GW-17). A single one may be at fault itself.
    static let messagesPerRest = 2
    /// Failed attempts after which a delivery has a connection of its own and no longer counts for the project's room
    /// (GW-17). A server that closes the connection because of it then closes it for no other; a first or second failure
    /// may be chance.
    static let attemptsPerConnection = 3
    /// Deliveries of all projects that are set aside because they keep failing (GW-17). Further ones count for their
    /// project's room. 65,536 are one message to all instances of a loop, and take some 30 MB, because the deliveries of
    /// a message share its bytes.
    static let asideMax = 65_536
    /// Longest delay of the door's own, in seconds (GW-11). Five minutes after a push service is back, everything is on
    /// its way again.
    static let retrySecondsMax: Double = 300
    /// Longest `Retry-After` that the door follows, in seconds (GW-11). An hour; a wrong header must not stop a project
    /// for a day.
    public static let retryAfterSecondsMax: Int64 = 3600
    /// Seconds for which a project rests after a push service has refused its keys (GW-11). A refused key will most
    /// likely be refused again. A new key ends the rest.
    static let refusedKeySeconds: Int64 = 60
    /// Milliseconds between two looks for instances whose connection has gone away (GW-11). It takes longer to notice a
    /// vanished device, so a second adds little.
    public static let awayMilliseconds: Int64 = 1000
    /// Milliseconds before an instance is attached again after the broker has ended its session (GW-11). Two doors that
    /// replace each other's sessions then do so once a second only.
    static let attachMilliseconds: Int64 = 1000
    /// Seconds between two pings of a link (NET-2). Well within the half hour after which the broker closes an idle
    /// connection.
    public static let pingSeconds: Int64 = 60
    /// Seconds that messages on their way have at a shutdown (GW-11). As long as connections on the device port; what is
    /// left is tried again after the start.
    public static let shutdownSecondsMax: Int64 = 5

    // MARK: Apple's push service

    /// Bytes of a notification's payload (GW-11). Apple, "Generating a remote notification": 4 KB.
    static let apnsPayloadBytesMax = 4096
    /// Bytes of `apns-collapse-id` (GW-11). Apple, "Sending notification requests to APNs", fixes it.
    static let apnsCollapseBytesMax = 64
    /// Age in seconds at which a provider token is renewed (GW-11). Apple, "Establishing a token-based connection to
    /// APNs": not more often than once every 20 minutes, and not less often than once every 60. The middle is 40.
    static let apnsTokenSeconds: Int64 = 2400
    /// Least age, in seconds, of a provider token that is renewed because Apple says that it has expired (GW-11). Apple
    /// allows a new one every 20 minutes.
    static let apnsTokenSecondsMin: Int64 = 1200
    /// Seconds that a push service may take for a connection (GW-11). A packet that is lost three times is sent again
    /// within seven.
    public static let connectSeconds: Int64 = 10
    /// Seconds that a push service may take for an answer (GW-11). They answer within tenths of a second; one that takes
    /// longer is in trouble.
    static let answerSeconds: Int64 = 30
    /// Bytes of an answer that are read (GW-11). Apple's answers have some forty.
    public static let answerBytesMax = 16 * 1024
}
