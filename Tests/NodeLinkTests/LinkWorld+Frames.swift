// SPDX-License-Identifier: Apache-2.0
//
// Frames on their way, and the followers of the world. Rests on LinkWorld.

import EngineBench
import MartletCluster
import MartletRows
import MartletWire

extension LinkWorld {
    func encoded(_ frame: NodeFrame) -> [UInt8] {
        var writer = WireWriter()
        frame.encode(into: &writer)
        return writer.bytes
    }

    func send(_ frame: NodeFrame, toFollower wire: Wire) {
        wire.toFollower.append(encoded(frame))
    }
    func send(_ frame: NodeFrame, toActive wire: Wire) { wire.toActive.append(encoded(frame)) }

    func decoded(_ bytes: [UInt8]) -> NodeFrame? {
        let frame = try? NodeFrame.decode(
            type: bytes[4], body: Array(bytes[5...]).span.bytes)
        if frame == nil { find("a frame cannot be read") }
        return frame
    }

    /// A follower opens a link to the node that it takes for the active one.
    func open(_ node: Node) {
        guard node.epoch == nil, node.link == nil,
            let active = nodes.last(where: { $0.epoch != nil && $0 !== node && $0.hasLease })
        else { return }
        let limits =
            breakage == .endlessRows
            ? (1 << 30, 1 << 30) : (Self.bytesMax, Self.rowsMax)
        let wire = Wire(
            follower: node.index, active: active.index,
            link: ActiveLink(
                hello(active), head: active.position, bytesMax: limits.0, rowsMax: limits.1))
        let link = FollowerLink(
            hello(node), position: node.position, bytesMax: Self.bytesMax, rowsMax: Self.rowsMax)
        wires.append(wire)
        node.wire = wire
        node.link = link
        send(link.hello, toActive: wire)
        count("link")
    }

    /// A node gives up its link to the active node.
    func leave(_ node: Node) {
        node.wire?.followerLeft = true
        node.wire = nil
        node.link = nil
        node.isForwarding = false
    }

    func faulty(_ fault: LinkFault, _ place: String) {
        switch fault {
        case .superseded, .notActive, .ahead: count("\(fault)".prefix(7).description)
        default: find("\(place): \(fault)")
        }
    }

    func deliverToActive(_ wire: Wire) {
        guard !wire.toActive.isEmpty else { return }
        let bytes = wire.toActive.removeFirst()
        let node = nodes[wire.active]
        guard !wire.activeLeft, node.epoch != nil, let frame = decoded(bytes) else { return }
        if wire.followerLeft { count("frame of a link that was left") }
        do throws(LinkFault) {
            // The head is that of the node at the time of HELLO.
            for event in try wire.link.receive(frame, &node.intake) {
                switch event {
                case .send(let frame):
                    if case .outcome = frame { count("outcome again") }
                    send(frame, toFollower: wire)
                case .command(let forward):
                    node.queue.append(
                        Name(process: wire.link.process!, number: forward.number))
                case .asked: answerHead(wire)
                case .greeted, .applied, .ended, .listen, .seed: break
                }
            }
            if case .forward(let forward) = frame, breakage == .everyCopyIsFirst {
                let name = Name(process: wire.link.process!, number: forward.number)
                if !node.queue.contains(name) { node.queue.append(name) }
            }
        } catch {
            wire.activeLeft = true
            faulty(error, "active")
        }
    }

    func answerHead(_ wire: Wire) {
        guard nodes[wire.active].hasLease, let frame = wire.link.takeAsked() else { return }
        send(frame, toFollower: wire)
    }

    /// No row of the active node is on its way into the log any more.
    func isDecided(_ node: Node) {
        guard node.epoch != nil, node.hasLease, node.open == nil else { return }
        for wire in wires where wire.active == node.index && !wire.activeLeft { answerHead(wire) }
        for question in node.questions.takeAll() { settle(question, node) }
    }

    func deliverToFollower(_ wire: Wire) {
        guard !wire.toFollower.isEmpty else { return }
        let bytes = wire.toFollower.removeFirst()
        let node = nodes[wire.follower]
        guard !wire.followerLeft, let frame = decoded(bytes), node.wire === wire else { return }
        do throws(LinkFault) {
            for event in try node.link!.receive(frame) {
                switch event {
                case .send(let frame): send(frame, toActive: wire)
                case .outcome(let outcome):
                    let applied = breakage == .earlyAnswers ? .max : node.position.row
                    if let answer = node.book.received(outcome, applied: applied) {
                        tell(answer, node, needs: outcome.row)
                    } else {
                        count("outcome held or known")
                    }
                case .head(let head):
                    let (ready, next) = try node.questions.received(
                        head, applied: node.position.row)
                    for question in ready { settle(question, node) }
                    if let next { send(next, toActive: wire) }
                case .greeted, .rows, .upstream, .seed: break
                }
            }
            if node.link!.unappliedByteCount > Self.bytesMax { find("a follower keeps too much") }
            if case .row(let row) = frame, breakage == .earlyRows,
                row.row == node.position.row + 1
            {
                var place = node.position
                (place.epoch, place.row, place.chain) = (row.epoch, row.row, row.chain)
                store(ReplicatedRow(read: place, body: row.body), in: node)
                try node.link!.applied(node.position)
            }
            try forwardIfNew(node)
        } catch {
            leave(node)
            faulty(error, "follower")
        }
    }

    func forwardIfNew(_ node: Node) throws(LinkFault) {
        guard let wire = node.wire else { return }
        let mayBegin = node.link!.beginForwarding()
        if mayBegin || breakage == .earlyForwarding, !node.isForwarding {
            node.isForwarding = true
            for forward in node.book.again() { send(.forward(forward), toActive: wire) }
        }
        if mayBegin, let frame = node.questions.begin(applied: node.position.row) {
            send(frame, toActive: wire)
        }
    }

    /// A follower works on its store.
    func follow(_ node: Node) {
        guard node.epoch == nil else { return }
        do throws(LinkFault) {
            if let link = node.link {
                switch try link.step(rowsMax: 3, bytesMax: 200) {
                case .wait: if random.chance(30) { readLog(node, through: node.position.row + 1) }
                case .apply(let rows): for row in rows { store(row, in: node) }
                case .readLog(let through):
                    count("log read")
                    readLog(node, through: min(through, node.position.row + 3))
                }
                try node.link!.applied(node.position)
                try forwardIfNew(node)
                if random.chance(30),
                    let frame = node.link!.report()
                {
                    send(frame, toActive: node.wire!)
                }
            } else {
                readLog(node, through: node.position.row + 2)
            }
        } catch {
            leave(node)
            faulty(error, "follower")
        }
    }
}
