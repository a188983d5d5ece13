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
}
