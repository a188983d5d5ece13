// SPDX-License-Identifier: Apache-2.0
//
// The bounds and times of a cluster, with the reason for each value. Pure.

/// Bounds and times of a cluster (OPS-7).
package enum ClusterLimits {
    /// How long a lease lives after its last renewal, by the log's clock: three seconds (OPS-7). Together with the
    /// takeover itself, a successor accepts messages within 4 s of the active node's end.
    package static let leaseLife = Duration.milliseconds(3000)
    /// Pause between two renewals: three quarters of a second (OPS-7). That is a quarter of the lease's life, so two
    /// renewals in a row may fail.
    package static let leaseRenewal = Duration.milliseconds(750)
    /// The share of the lease's life that its holder relies on, per mille (OPS-7). The rest allows for clocks that run at
    /// different speeds.
    package static let leaseTrustedPerMille = 800
    /// How long connecting and the first commit may take: three seconds (OPS-7). A server that needs longer has no
    /// standby or cannot be reached, and the next one may be better.
    package static let firstCommit = Duration.milliseconds(3000)
    /// Rows in a partition of the log (OPS-7). Partitions are created ahead of time, when row numbers are known and bytes
    /// are not.
    package static let partitionRows: UInt64 = 65_536
    /// Bytes of row bodies after which one reading of the log ends (OPS-7). A follower that is behind applies that much
    /// in one transaction, within some milliseconds.
    package static let readBytesMax = 4 << 20
    /// Rows in one reading of the log (OPS-7). A row has some 60 bytes beside its body, so this keeps a reading of short
    /// rows small too.
    package static let readRowsMax = 1024
    /// Longest name of a node, in bytes (OPS-7). It is part of the connection's name, which PostgreSQL cuts after 63.
    package static let nodeNameBytesMax = 40
    /// Longest life of a lease: ten seconds (OPS-7). The holder asks for more than `leaseLife` while the log is slow. As
    /// long as a commit takes less than 2 s, another node is still active within 12 s.
    package static let leaseLifeMax = Duration.milliseconds(10_000)
    /// How long an active node waits for a renewal under way once the trusted part of its lease is over: five seconds
    /// (OPS-7). A call of a slow log may take that long; meanwhile the node appends nothing.
    package static let leaseGrace = Duration.milliseconds(5000)
    /// How long one call of the log may take while the log is as fast as usual: 2400 milliseconds (OPS-7). That is the
    /// trusted part of a lease's life, because a node looks at its lease and its own commands only between two calls.
    package static let attempt = Duration.milliseconds(2400)
    /// How long one call of a slow log may take, and connecting before it: five seconds (OPS-7). Clients wait for a
    /// refusal as long as the call lasts, so a log that needs longer counts as away.
    package static let attemptMax = Duration.milliseconds(5000)
    /// How long a row in doubt keeps its transaction open: four seconds (OPS-7). The lease is over by then and another
    /// node may have decided about the row, so the node reads on.
    package static let doubt = Duration.milliseconds(4000)
    /// How long the last call about a row in doubt may take at least: 500 milliseconds (OPS-7). A usual commit takes
    /// less.
    package static let doubtLeast = Duration.milliseconds(500)
    /// Milliseconds between two polls of the log by a node that hears nothing over a link (OPS-7). Ten questions per
    /// second and node cost PostgreSQL little.
    package static let pollMilliseconds = 100
    /// Milliseconds between two polls while commands or questions wait for the next row and no link tells of it (OPS-7).
    /// A client is waiting, and few nodes lack a link at a time.
    package static let pollWaitingMilliseconds = 5
    /// Fanouts that a follower has reported and the active node has not begun to count (FAN-1). A follower may read a row
    /// in the log and finish its fanouts before the active node tells its own loops. The bound is a row or two of some
    /// hundred fanouts.
    package static let earlyFanoutsMax = 4096
    /// Milliseconds after which a command without an answer is refused (OPS-7). A refused command may still be applied
    /// later, so this is longer than a takeover and a promotion of the log's standby together.
    package static let unansweredMilliseconds: Int64 = 10_000
    /// How long the log may be silent before commands that are not under way are refused at once: three seconds (OPS-7).
    /// A lease lives that long. If another node is active and its link is silent too, commands under way are refused as
    /// well, because no takeover brings their answers.
    package static let away = Duration.seconds(3)
    /// How long the log may answer without taking a row before commands are refused: two seconds (OPS-7). The other nodes
    /// hear of it within some tenths of a second, so their clients have an answer within three.
    package static let refusing = Duration.seconds(2)
    /// How often the active node tells the others that the log takes no rows: every 500 milliseconds (OPS-7). What it
    /// said holds for three times as long.
    package static let refusingTold = Duration.milliseconds(500)
    /// How long a follower believes that the log takes no rows: 1500 milliseconds (OPS-7). Two further words may be late.
    package static let refusingHeard = Duration.milliseconds(1500)
    /// How long the log keeps rows that all nodes have: an hour (OPS-7). A node can be restored from a backup that is as
    /// old.
    package static let keep = Duration.seconds(3600)
    /// Size of the log on a server, in bytes, beyond which the oldest rows go even though a node lacks them (OPS-7). A
    /// node that is away must not fill the log's disk, for which the article Cluster asks 100 GiB. That node joins again.
    package static let logBytesMax: UInt64 = 64 << 30
    /// Bytes that may wait on a link (OPS-7). The longest command has as many. Beyond them the link is closed; its node
    /// reads the log, and forwards its commands again.
    package static let linkBytesMax = 64 << 20
    /// Bytes that may wait on a link before it takes no further row and no now-or-never message (OPS-7). Two of the
    /// largest rows have as many. The follower reads the row in the log, and the message goes through the log.
    package static let linkBytesReady = 8 << 20
    /// Largest body of a row that goes over links, in bytes (OPS-7). A larger one would hold up what waits behind it, so
    /// followers read it in the log.
    package static let linkRowBytesMax = 4 << 20
    /// Bytes of rows that came over the link and are not applied yet, and bytes of now-or-never messages that wait for a
    /// row (OPS-7). Eight of a link's largest rows have as many. Further rows are read in the log, and further messages
    /// are dropped.
    package static let heldBytesMax = 32 << 20
    /// Bytes of now-or-never messages that a loop sends to other nodes in one frame (TTL-2). Small beside
    /// `linkBytesReady`, so a row does not wait long behind them.
    package static let nowOrNeverFrameBytes = 1 << 20
    /// Nanoseconds without a PONG after which a link ends while devices or questions wait: a second (TTL-2). Once the
    /// link has ended, no now-or-never message comes over it, so they need not wait any longer.
    package static let pongNanoseconds: UInt64 = 1_000_000_000
    /// How long a link may be silent before a node ends it: three seconds (OPS-7). The other node is frozen or cut off,
    /// and its lease is over too. A follower's parts of fanouts end with the link.
    package static let linkSilence = Duration.seconds(3)
    /// How long a node waits for the others to say whether they are cut off too: a second (OPS-7). A device waits
    /// meanwhile, and answers come within milliseconds or not at all.
    package static let wordPatience = Duration.seconds(1)
    /// How long a follower may report nothing of a fanout before its part counts as ended: three seconds (FAN-1). A
    /// silent link lives that long.
    package static let partSilence = Duration.seconds(3)
    /// How often the active node looks for silent parts: every 500 milliseconds (FAN-1). A part then ends a sixth late at
    /// most.
    package static let partCheck = Duration.milliseconds(500)
    /// Links to other nodes, and so nodes in a cluster (OPS-7). Far more than the connections of a usual PostgreSQL
    /// allow.
    package static let linksMax = 64
    /// Strangers at a node's address: peers that have not proved to be nodes (OPS-7). Half as many as there may be nodes,
    /// and each has two seconds for its proof.
    package static let strangersMax = 32
    /// How long a node may be silent before its connections count as lost and it is no longer ready: ten seconds (OPS-7).
    /// A takeover and a promotion of the log's standby together take less.
    package static let silence = Duration.seconds(10)
    /// How long the active node's disk may take nothing new before another node gets the role: two seconds (OPS-7).
    /// Senders wait meanwhile, and a disk that is slow for a moment is no reason.
    package static let diskTrouble = Duration.seconds(2)
    /// How long a node keeps the role before it gives it away again because of its disk: 60 seconds (OPS-7). If the disks
    /// of all nodes are full, the role must not go round.
    package static let diskTroublePause = Duration.seconds(60)
    /// How long a node claims no role after it handed its own over: three seconds (OPS-7). A lease lives that long, so
    /// the successor has renewed it by then.
    package static let handedOver = Duration.seconds(3)
    /// A process that loses its node's name twice within this time stops: 60 seconds (OPS-7). Two living processes with
    /// one name take it from each other every few seconds.
    package static let nameLostAgain = Duration.seconds(60)
    /// How long further losses of a node's name count as the same one: two seconds (OPS-7). One exchange is noticed on
    /// several links.
    package static let nameLostOnce = Duration.seconds(2)
    /// How much longer each follower waits before it takes over, by its place among the living nodes: 200 milliseconds
    /// (OPS-7). Claims rarely meet that way, and the fifth node is only a second behind.
    package static let takeoverStep = Duration.milliseconds(200)
    /// How long a question waits for the newest rows, in nanoseconds: three seconds (OPS-7). After as long without the
    /// log, changes are refused too.
    package static let questionNanoseconds: UInt64 = 3_000_000_000
}
