// SPDX-License-Identifier: Apache-2.0
//
// The limits of a link between two nodes of a cluster, each with its reason (OPS-7). Pure.

/// OPS-7: bounds of links between nodes.
package enum NodeLimits {
    /// OPS-7: forwarded commands of a node without an answer. Further commands are refused with a delay. The bound is
    /// that of commands waiting for a broker alone.
    package static let forwardedMax = 65_536
    /// OPS-7: longest frame of a node, in bytes after the length field. A command of a loop has the acknowledgements of
    /// all its devices.
    package static let frameBytesMax = 64 << 20 + 1024
    /// OPS-7: longest frame before HELLO has come. The HELLO of a node has less than 1 KiB.
    package static let helloBytesMax = 1024
    /// OPS-7: fanouts in a report of progress. More fanouts are told by the next report.
    package static let endedEntriesMax = 4096
    /// FAN-8: projects in a report of a node's load, the busiest first, and fanouts. A report goes out once a second,
    /// and has some 100 KiB at most.
    package static let figureProjectsMax = 256
    package static let figureFanoutsMax = 256
    /// QUO-4: quotas in a report, the emptiest first.
    package static let quotaEntriesMax = 1024
    /// EMB-3: projects of which a node asks others for events. A console has 64 streams of events, and each watched
    /// project has a buffer of 1024 events on each node.
    package static let watchedProjectsMax = 256
    /// OPS-7: longest time between two reports of progress, in milliseconds.
    package static let reportMilliseconds = 100
}
