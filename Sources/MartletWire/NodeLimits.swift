// SPDX-License-Identifier: Apache-2.0
//
// The limits of a link between two nodes of a cluster, each with its reason (OPS-7). Pure.

/// Bounds of links between nodes (OPS-7).
package enum NodeLimits {
    /// Commands that a node has forwarded and that have no answer (OPS-7). Further commands are refused with a delay. As
    /// many as may wait for a broker alone.
    package static let forwardedMax = 65_536
    /// Longest frame of a node, in bytes after the length field (OPS-7). A command of a loop has the acknowledgements of
    /// all its devices.
    package static let frameBytesMax = 64 << 20 + 1024
    /// Longest frame before HELLO has come, in bytes (OPS-7). The HELLO of a node has less.
    package static let helloBytesMax = 1024
    /// Entries of a report of progress: fanouts that have ended or gone on (OPS-7). At 25 bytes each they take 100 KB;
    /// more fanouts are told by the next report.
    package static let endedEntriesMax = 4096
    /// Projects in a report of a node's load, the busiest first (FAN-8). A report goes out once a second, and has some
    /// 100 KiB at most.
    package static let figureProjectsMax = 256
    /// Fanouts in a report of a node's load (FAN-8). A report goes out once a second, and has some 100 KiB at most.
    package static let figureFanoutsMax = 256
    /// Entries of a report of quotas, the emptiest first (QUO-4). Full ones say nothing, and few are emptied at a time.
    package static let quotaEntriesMax = 1024
    /// Projects that a node watches at the others (EMB-3). A console has 64 streams of events, and each watched project
    /// has a buffer of 1024 events on each node.
    package static let watchedProjectsMax = 256
    /// Milliseconds between two reports of progress, at most (OPS-7). A fanout that ends on all nodes frees its place a
    /// tenth of a second later.
    package static let reportMilliseconds = 100
}
