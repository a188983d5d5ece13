// SPDX-License-Identifier: Apache-2.0
//
// The active node of the world: takeovers, transactions, and the log's decisions about rows. Rests on LinkWorld.

import EngineBench
import MartletCluster
import MartletRows
import MartletWire

extension LinkWorld {
    func hello(_ node: Node) -> NodeHello {
        NodeHello(
            position: node.position.ofHello, node: "n\(node.index)", address: "h:1",
            process: node.process, run: node.run, rowFormats: 1...1, commandFormats: 1...1)
    }

    /// Reads the log to its end, and writes the first row of a new epoch.
    func takeOver(_ node: Node) {
        for other in nodes { other.hasLease = false }
        leave(node)
        readLog(node, through: UInt64(log.count))
        epoch += 1
        let row = ReplicatedRow(
            after: node.position, epoch: epoch, body: Body(names: [], filling: 1).bytes)
        log.append(row)
        store(row, in: node)
        node.epoch = epoch
        node.hasLease = true
        node.intake = ForwardIntake(forwardedMax: Self.forwardedMax)
        node.open = nil
        node.isAccepted = false
        // Its own commands go the way of all commands, without a link.
        node.queue = node.book.again().map { Name(process: node.process, number: $0.number) }
        count("takeover")
    }

    func stepDown(_ node: Node) {
        node.epoch = nil
        node.hasLease = false
        node.open = nil
        node.isAccepted = false
        node.queue = []
        for wire in wires where wire.active == node.index { wire.activeLeft = true }
        count("step down")
    }

    /// Begins a transaction with some commands that wait.
    func begin(_ node: Node) {
        guard let epoch = node.epoch, node.open == nil else { return }
        let batch = Array(node.queue.prefix(random.number(1...4)))
        node.queue.removeFirst(batch.count)
        let refused = batch.filter { _ in random.chance(35) }
        let made = batch.filter { !refused.contains($0) }
        if made.isEmpty, random.chance(70) {
            // No row: told under the check of the lease alone.
            guard node.hasLease else { return stepDown(node) }
            for name in refused { tellNoRow(name, node) }
            return
        }
        let row = ReplicatedRow(
            after: node.position, epoch: epoch,
            body: Body(names: made, filling: random.number(0...120)).bytes)
        node.open = (row, batch, refused)
        for wire in wires where wire.active == node.index && !wire.activeLeft {
            if let frame = wire.link.append(row) {
                send(frame, toFollower: wire)
            } else if wire.link.leavesOut {
                count("left out")
            }
            if wire.link.unappliedByteCount > Self.bytesMax, breakage != .endlessRows {
                find("the active node keeps count of too many rows")
            }
        }
    }

    /// The log decides about the open row.
    func decide(_ node: Node) {
        guard let open = node.open, !node.isAccepted else { return }
        if random.chance(15) {
            // A refusal without another node: the batch goes into another row.
            count("refused row")
            node.open = nil
            node.queue = open.batch + node.queue
            for wire in wires where wire.active == node.index && !wire.activeLeft {
                wire.link.refused()
            }
            isDecided(node)
            return
        }
        guard open.row.position.row == UInt64(log.count) + 1,
            open.row.position.epoch == epoch
        else { return stepDown(node) }
        log.append(open.row)
        count("row")
        node.isAccepted = true
    }

    /// The active node hears that its row is in the log.
    func hear(_ node: Node) {
        guard node.isAccepted, let (row, _, refused) = node.open else { return }
        node.open = nil
        node.isAccepted = false
        store(row, in: node)
        for wire in wires where wire.active == node.index && !wire.activeLeft {
            if let frame = wire.link.committed(row.position) { send(frame, toFollower: wire) }
        }
        for name in Body(row.body).names where name.process != node.process {
            node.intake.answeredByRow(of: name.process)
        }
        if node.hasLease {
            for name in refused { tellNoRow(name, node) }
            isDecided(node)
        } else {
            stepDown(node)
        }
    }

    func tellNoRow(_ name: Name, _ node: Node) {
        let owner = nodes[Int(name.process) - 1000]
        let outcome = NodeOutcome(
            run: owner.run, number: name.number, row: node.position.row,
            outcome: Array("none".utf8))
        guard owner !== node else {
            if let answer = node.book.received(outcome, applied: node.position.row) {
                tell(answer, node, needs: outcome.row)
            }
            return
        }
        if breakage == .forgottenOutcomes {
            node.intake.answeredByRow(of: name.process)
        } else {
            node.intake.answered(outcome, of: name.process)
        }
        guard
            let wire = wires.last(where: {
                $0.active == node.index && $0.follower == owner.index && !$0.activeLeft
            })
        else { return }
        if let frame = wire.link.outcome(outcome) { send(frame, toFollower: wire) }
    }
}
