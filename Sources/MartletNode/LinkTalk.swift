// SPDX-License-Identifier: Apache-2.0
//
// What else nodes tell each other over a link, beside rows, commands and devices' messages: now-or-never messages, progress of
// fanouts, loads, quotas, and events of watched projects. Each goes only to nodes whose HELLO names its format. Rests on
// NodeLinks, RowFeed, NowOrNeverRelay, FanoutParts, FanoutReports, NodeFigureBook and WatchRelay.

import MartletBase
import MartletCluster
import MartletCommitter
import MartletThreads
import MartletWire

/// Where the talk on a link stands. Lives on the link's thread.
struct LinkTalk {
    /// Whether we are the active one of the two.
    let isActive: Bool
    /// The other node's name.
    private(set) var node = ""
    private(set) var hasReports = false
    private(set) var hasWatches = false
    private(set) var hasQuotas = false
    private(set) var hasRefusals = false
    /// When we last told it that the log takes no rows.
    var refusalTold = Duration.zero
    /// When we last told it the loads.
    var reported = Duration.zero
    /// When its last frame came; nil until it first reports its load, which it then does once a second.
    private(set) var heard: Duration?
    /// Whether the other node seems frozen or cut off, because no frame has come for long.
    var isSilent: Bool {
        heard.map { ClusterState.now - $0 > ClusterLimits.linkSilence } ?? false
    }

    init(isActive: Bool) { self.isActive = isActive }

    /// Notes a frame from the other node.
    mutating func hear(_ frame: NodeFrame) {
        guard heard == nil else { return heard = ClusterState.now }
        if case .figures = frame { heard = ClusterState.now }
    }

    fileprivate mutating func begin(_ hello: NodeHello) {
        node = hello.node
        hasReports = LinkFormat.hasReports(hello)
        hasWatches = LinkFormat.hasWatches(hello)
        hasQuotas = LinkFormat.hasQuotas(hello)
        hasRefusals = LinkFormat.hasRefusals(hello)
    }
}

extension NodeLinks {
    /// The other node has said hello.
    func begin(_ talk: inout LinkTalk, _ hello: NodeHello, _ link: LinkOutbox) {
        talk.begin(hello)
        if talk.hasReports {
            if talk.isActive { parts.join(link) } else { reports.begin(link) }
        }
        if talk.hasWatches { watches.join(link) }
        switch (talk.isActive, LinkFormat.hasRows(hello)) {
        case (true, true):
            rows.join(link)
            nowOrNever.join(link, process: hello.process)
        case (true, false): break
        case (false, true): rows.begin(link)
        case (false, false): nowOrNever.close(link)
        }
    }

    /// Tells the other node the news. Called at least every 100 ms.
    func tell(_ talk: inout LinkTalk, _ link: LinkOutbox) {
        let now = ClusterState.now
        if talk.hasReports {
            if talk.isActive {
                changeFanouts { parts.check(link, at: $0, clock: now) }
                figures.tell(
                    link, of: talk.node, &talk.reported, withQuotas: talk.hasQuotas)
            } else {
                reports.tell(at: now)
                figures.tellOwn(link, &talk.reported)
            }
        }
        if talk.hasWatches, let book = watchBook { watches.tell(link, book) }
        if talk.isActive, talk.hasRefusals, now - talk.refusalTold >= ClusterLimits.refusingTold,
            cluster.withLock({ $0.appendTrouble != nil })
        {
            talk.refusalTold = now
            link.push(NodeFrame.error(.noActiveNode("the log takes no rows")).bytes)
        }
    }

    /// Takes a frame from the other node.
    /// - Returns: false if the link must end.
    func hear(_ frame: NodeFrame, _ talk: LinkTalk, _ link: LinkOutbox) -> Bool {
        switch frame {
        case .ended(let frame):
            guard talk.isActive, talk.hasReports else { return false }
            changeFanouts { parts.take(frame, from: link, at: $0, clock: ClusterState.now) }
        case .figures(let frame):
            // The active node also sends other followers' loads.
            guard talk.hasReports, !talk.isActive || frame.node == talk.node else { return false }
            figures.take(frame, at: ClusterState.now)
        case .quotas(let frame):
            guard talk.hasQuotas, !talk.isActive else { return false }
            figures.take(frame, at: ClusterState.now)
        case .watch(let frame):
            guard talk.hasWatches else { return false }
            if let book = watchBook { watches.take(frame, from: link, book) }
        case .events(let frame):
            guard talk.hasWatches, !talk.isActive || frame.node == talk.node else { return false }
            if let book = watchBook { watches.take(frame, from: link, book) }
        default: return false
        }
        return true
    }

    /// The link has ended.
    func end(_ talk: LinkTalk, _ link: LinkOutbox) {
        if talk.isActive {
            changeFanouts { parts.leave(link, at: $0) }
            rows.leave(link)
            nowOrNever.leave(link)
        } else {
            reports.end(link)
            rows.end(link)
            nowOrNever.close(link)
        }
        watches.leave(link)
    }
}
