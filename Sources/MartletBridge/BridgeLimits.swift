// SPDX-License-Identifier: Apache-2.0
//
// The bounds of the door to foreign push services, each with the row of the specification that asks for it. Rests on
// nothing.

/// Bounds of the door to push services. Sizes are in bytes and times in seconds, unless the name says otherwise.
public enum BridgeLimits {
    // MARK: What waits in memory

    /// GW-11: messages of a project that wait in the door: to be handed over, on their way, or to be tried again. Beyond,
    /// the door reads no more of the project's messages, and they wait in the store. For each message 1.6 KB are kept
    /// beside its own bytes (`make bench`), so a project waits with 12 MB at most.
    public static let waitingPerProjectMax = 2048
    /// GW-11: messages of all projects that wait in the door. Beyond, each project has a part of it.
    public static let waitingMax = 16_384
    /// GW-11: messages of a project on their way to a push service. Apple allows a thousand streams on a connection; the
    /// service's own bound counts where it is lower. Each takes 32 KB (`make bench`), most of it in the HTTP client.
    static let onTheirWayPerProjectMax = 256
    /// GW-11: messages of all projects on their way to push services.
    static let onTheirWayMax = 1024
    /// GW-11: instances that the door reads from the store in a step.
    static let instancesPerStep = 256

    // MARK: Times

    /// GW-11: the first delay before a message is tried again. Each further delay is twice as long, with jitter.
    public static let retrySeconds: Double = 1
    /// GW-11: consecutive answers without a taken message after which a project rests, and failed attempts in a row after
    /// which a message is set aside (GW-17). Fewer are chance.
    public static let failuresPerRest = 16
    /// GW-17: failing messages by which a failure is the service's. A single one may be at fault itself.
    static let messagesPerRest = 2
    /// GW-17: failed attempts after which a delivery has a connection of its own and no longer counts for the project's
    /// room: a server that closes the connection for it then closes it for no other.
    static let attemptsPerConnection = 3
    /// GW-17: deliveries of all projects that are set aside because they keep failing. Further ones count for their
    /// project's room. 65,536 are one message to all instances of a loop, and take some 30 MB, because the deliveries of a
    /// message share its bytes.
    static let asideMax = 65_536
    /// GW-11: the longest delay of the door's own.
    static let retrySecondsMax: Double = 300
    /// GW-11: the longest `Retry-After` that the door follows.
    public static let retryAfterSecondsMax: Int64 = 3600
    /// GW-11: for how long a project rests after a push service has refused its keys. A new key ends the rest.
    static let refusedKeySeconds: Int64 = 60
    /// GW-11: time between two looks for instances whose connection of their own has ended.
    public static let awayMilliseconds: Int64 = 1000
    /// GW-11: delay before an instance is attached anew after the broker has ended its session.
    static let attachMilliseconds: Int64 = 1000
    /// NET-2: time between two signs of life of a link.
    public static let pingSeconds: Int64 = 60
    /// GW-11: for how long messages on their way may end at a shutdown.
    public static let shutdownSecondsMax: Int64 = 5

    // MARK: Apple's push service

    /// GW-11: bytes of a notification. Source: Apple, "Generating a remote notification": 4 KB.
    static let apnsPayloadBytesMax = 4096
    /// GW-11: bytes of `apns-collapse-id`. Source: Apple, "Sending notification requests to APNs".
    static let apnsCollapseBytesMax = 64
    /// GW-11: the age at which a provider token is renewed. Source: Apple, "Establishing a token-based connection to
    /// APNs": not more often than once every 20 minutes, and not less often than once every 60 minutes.
    static let apnsTokenSeconds: Int64 = 2400
    /// GW-11: the least age of a provider token that is renewed because Apple says that it has expired.
    static let apnsTokenSecondsMin: Int64 = 1200
    /// GW-11: for how long Apple may take for a connection, and for an answer.
    public static let connectSeconds: Int64 = 10
    static let answerSeconds: Int64 = 30
    /// GW-11: bytes of an answer that are read. Apple's answers have some forty.
    public static let answerBytesMax = 16 * 1024
}
