// SPDX-License-Identifier: Apache-2.0
//
// The bounds and times of a cluster, with the reason for each value. Pure.

/// OPS-7: bounds and times of a cluster.
package enum ClusterLimits {
    /// OPS-7: life of a lease after its last renewal, by the clock of the log. With the takeover's own time a successor
    /// accepts messages within 4 s of the end of an active node.
    package static let leaseLife = Duration.milliseconds(3000)
    /// OPS-7: pause between two renewals: a quarter of the lease's life, so two renewals in a row may fail.
    package static let leaseRenewal = Duration.milliseconds(750)
    /// OPS-7: part of the lease's life for which the holder counts on the lease, in per mille. The rest covers clocks
    /// of unequal speed.
    package static let leaseTrustedPerMille = 800
    /// OPS-7: longest time for a connection and the first commit. A slower server has no standby or
    /// cannot be reached, and the next server may be better.
    package static let firstCommit = Duration.milliseconds(3000)
    /// OPS-7: rows of a partition of the log. Bounds by row numbers are known ahead, bounds by bytes are not.
    package static let partitionRows: UInt64 = 65_536
    /// OPS-7: bytes of bodies after which a reading of the log ends. A follower behind the log applies as much in a
    /// transaction.
    package static let readBytesMax = 4 << 20
    /// OPS-7: rows of a reading. Rows have some 60 bytes beside their bodies, so the bound keeps a reading of short
    /// rows small too.
    package static let readRowsMax = 1024
    /// OPS-7: bytes of a node's name. PostgreSQL cuts the name of a connection, with the node's name inside, after
    /// 63 bytes.
    package static let nodeNameBytesMax = 40
    /// OPS-7: longest life of a lease: the holder asks for more than `leaseLife` while the log is slow. With a commit's
    /// time for the takeover another node is active within 12 s, as long as a commit takes less than 2 s.
    package static let leaseLifeMax = Duration.milliseconds(10_000)
    /// OPS-7: time after the end of the trusted life for which an active node waits for a renewal that is under way. The
    /// node appends nothing meanwhile.
    package static let leaseGrace = Duration.milliseconds(5000)
    /// OPS-7: time for one call of the log by a node, while the log answers as usual: the trusted part of a lease's life.
    /// The node looks at its lease and at its own commands between two calls.
    package static let attempt = Duration.milliseconds(2400)
    /// OPS-7: longest time for one call of a slow log, and for the connection before it. A log that takes longer for a
    /// commit counts as away, because clients wait for a refusal as long as the call lasts.
    package static let attemptMax = Duration.milliseconds(5000)
    /// OPS-7: time for which a row in doubt keeps its transaction open. After the lease's life another node may have
    /// decided the row's fate, and the node reads on.
    package static let doubt = Duration.milliseconds(4000)
    /// OPS-7: least time for the last call about a row in doubt: more than a usual commit takes.
    package static let doubtLeast = Duration.milliseconds(500)
    /// OPS-7: pause between two readings of the log by a node without news over a link.
    package static let pollMilliseconds = 100
    /// OPS-7: pause between two readings while commands or questions wait for the next row, and no link tells of it.
    package static let pollWaitingMilliseconds = 5
    /// FAN-1: fanouts of a follower's reports that the active node has not begun to count. A follower may read a row in
    /// the log, and end its fanouts, before the active node tells its own loops: a row or two of some hundred fanouts.
    package static let earlyFanoutsMax = 4096
    /// OPS-7: time after which a command without an answer is refused: longer than a takeover and a promotion of the
    /// log's standby take together, because the command may be applied later.
    package static let unansweredMilliseconds: Int64 = 10_000
    /// OPS-7: time without an answer of the log after which commands that are not on the way are refused at once. Without a
    /// word over the link while another node is active, commands on the way are refused too: no takeover brings their answers.
    package static let away = Duration.seconds(3)
    /// OPS-7: time for which the log answers and takes no row before commands are refused. The other nodes hear of it within
    /// some tenths of a second, so their clients have an answer within three seconds.
    package static let refusing = Duration.seconds(2)
    /// OPS-7: pause between two words of the active node that the log takes no rows.
    package static let refusingTold = Duration.milliseconds(500)
    /// OPS-7: time for which such a word holds: two further words may be late.
    package static let refusingHeard = Duration.milliseconds(1500)
    /// OPS-7: time for which the log keeps rows that all nodes have, for backups of an hour ago.
    package static let keep = Duration.seconds(3600)
    /// OPS-7: bytes of the log on a server beyond which the oldest rows go although a node lacks them: a node that is away
    /// must not fill the disk of the log. The node joins again.
    package static let logBytesMax: UInt64 = 64 << 30
    /// OPS-7: bytes that wait on a link. A link with more is closed; its node reads the log, and forwards again.
    package static let linkBytesMax = 64 << 20
    /// OPS-7: bytes that wait on a link up to which the link takes a row, and up to which the active node sends now-or-never
    /// messages over links. A follower reads a row that did not come, and further messages go into the log.
    package static let linkBytesReady = 8 << 20
    /// OPS-7: bytes of the body of a row that goes over links. Larger rows would hold up what waits behind them.
    package static let linkRowBytesMax = 4 << 20
    /// OPS-7: bytes of rows that have come over the link and are not applied, and bytes of now-or-never messages that wait
    /// for a row. Further rows are read in the log, and further messages are dropped.
    package static let heldBytesMax = 32 << 20
    /// TTL-2: bytes of now-or-never messages of one turn of a loop that go to other nodes in one frame.
    package static let liveFrameBytes = 1 << 20
    /// TTL-2: time without PONG after which a link ends while devices or questions wait. No now-or-never message comes over
    /// a link that has ended, so the devices need not wait any more.
    package static let pongNanoseconds: UInt64 = 1_000_000_000
    /// OPS-7: time without a frame after which a node ends a link, because the other node is frozen or cut off. Parts of
    /// fanouts of a follower end with the link.
    package static let linkSilence = Duration.seconds(3)
    /// OPS-7: time for the answer of another node to the question whether it is cut off too. A device waits for the answers
    /// of all nodes, as long as a question waits.
    package static let wordPatience = Duration.seconds(1)
    /// FAN-1: time without a report of a fanout after which the part of a follower counts as ended.
    package static let partSilence = Duration.seconds(3)
    /// FAN-1: pause between two looks for silent parts.
    package static let partCheck = Duration.milliseconds(500)
    /// OPS-7: nodes of a cluster: far more than connections of a usual PostgreSQL allow.
    package static let linksMax = 64
    /// OPS-7: peers of a node's address that have not proved to be nodes. A peer has two seconds for the proof.
    package static let strangersMax = 32
    /// OPS-7: silence after which the connections of a node count as lost, and after which a node is not ready: longer
    /// than a takeover and a promotion of the log's standby.
    package static let silence = Duration.seconds(10)
    /// OPS-7: time for which the disk of the active node takes nothing new before the role goes to another node.
    package static let diskTrouble = Duration.seconds(2)
    /// OPS-7: pause before a node gives the role away again because of its disk: if the disks of all nodes are full, the
    /// role must not go round.
    package static let diskTroublePause = Duration.seconds(60)
    /// OPS-7: pause of a node before a claim on a role after the node's own handover of the role.
    package static let handedOver = Duration.seconds(3)
    /// OPS-7: a process that loses the node's name twice within this time stops. Two living processes exchange a name within
    /// some seconds.
    package static let nameLostAgain = Duration.seconds(60)
    /// OPS-7: time after the loss of a node's name in which further losses do not count.
    package static let nameLostOnce = Duration.seconds(2)
    /// OPS-7: further wait of each follower before it takes over, by its place among the living nodes, so that claims
    /// rarely meet.
    package static let takeoverStep = Duration.milliseconds(200)
    /// OPS-7: time for which a question waits for the newest rows, in nanoseconds.
    package static let questionNanoseconds: UInt64 = 3_000_000_000
}
