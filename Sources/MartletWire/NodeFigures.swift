// SPDX-License-Identifier: Apache-2.0
//
// FIGURES between nodes: the load of a node, for the status of the whole cluster (FAN-8). Rests on the codecs of the
// status and of fanouts.

package import MartletBase

/// NODE_FIGURES (0xCA): the load of a node. A follower tells its own once a second; the active node tells its own and
/// those of the other followers.
package struct NodeFigures: WireFrame {
    /// Name of the node.
    package var node: String
    package var isActive: Bool
    /// Fanouts in progress and deferred messages, from the active node; else empty.
    package var fanouts: [FanoutSummary]
    /// The load of the node, with at most `NodeLimits.figureProjectsMax` projects and no nodes.
    package var status: BrokerStatus

    package init(
        node: String, isActive: Bool, fanouts: [FanoutSummary], status: BrokerStatus
    ) {
        self.node = node
        self.isActive = isActive
        self.fanouts = fanouts
        self.status = status
    }

    package var type: FrameType { .nodeFigures }

    init(from reader: inout WireReader) throws(WireError) {
        node = try reader.string()
        isActive = try reader.flag("active")
        fanouts = try reader.list(entryBytesMin: FanoutSummary.bytesMin) {
            (reader) throws(WireError) in try FanoutSummary(from: &reader)
        }
        status = try BrokerStatus(from: &reader)
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.string(node)
        writer.flag(isActive)
        writer.list(fanouts) { (writer, fanout) in fanout.encode(into: &writer) }
        status.encode(into: &writer)
    }
}
