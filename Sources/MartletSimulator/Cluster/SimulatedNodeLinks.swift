// SPDX-License-Identifier: Apache-2.0
//
// The links between the nodes of a simulated cluster: frames arrive in order and late, a cut holds them up, and a long
// cut ends the link. The nodes' own code writes and reads the frames. Rests on Fiber and NodeNetwork.

import Martlet
import MartletCluster
import MartletNode
import MartletWire

/// The links between the machines of a cluster.
final class SimulatedNodeLinks {
    /// Time after which a link without a way is given up, as TCP gives it up.
    fileprivate static let patience: Int64 = 5_000_000
    /// Time between two attempts of a held-up link.
    fileprivate static let retry: Int64 = 20_000

    let agenda: Agenda
    private var random: Randomness
    private var cuts: Set<[Int]> = []
    var delayMean: Int64 = 100
    /// Called when a now-or-never message is overtaken by other frames, against the order of a link; nil: none is.
    var overtaken: (() -> Void)?
    /// Called with the number of a machine and the end of a new link. Returns false if no process listens.
    var listen: (_ machine: Int, SimulatedNodeLinkEnd) -> Bool = { _, _ in false }
    /// Called when frames have arrived at a machine.
    var arrived: (_ machine: Int) -> Void = { _ in }

    init(agenda: Agenda, random: Randomness) {
        self.agenda = agenda
        self.random = random
    }

    func setCut(_ one: Int, _ other: Int, _ isCut: Bool) {
        let pair = [min(one, other), max(one, other)]
        if isCut { cuts.insert(pair) } else { cuts.remove(pair) }
    }

    func isCut(_ one: Int, _ other: Int) -> Bool {
        cuts.contains([min(one, other), max(one, other)])
    }

    func delay() -> Int64 { random.pause(mean: delayMean) }
    func makeRandomness() -> Randomness { Randomness(seed: random.next()) }

    func end() {
        listen = { _, _ in false }
        arrived = { _ in }
        overtaken = nil
    }
}

/// The network of one node.
final class SimulatedNodeNetwork: NodeNetwork, @unchecked Sendable {
    private let links: SimulatedNodeLinks
    private let machine: Int
    private let process: SimulatedProcess

    init(_ links: SimulatedNodeLinks, _ machine: Int, _ process: SimulatedProcess) {
        self.links = links
        self.machine = machine
        self.process = process
    }

    /// Nodes listen at ports by the numbers of their machines.
    static func address(of machine: Int) -> NodeAddress {
        NodeAddress(host: "node", port: UInt16(machine + 1))
    }

    func makeOutbox(limit: Int) -> LinkOutbox {
        let fiber = process.current
        return LinkOutbox(limit: limit) { fiber?.wake() }
    }

    func connect(to address: NodeAddress) throws(NodeLinkFailure) -> any NodeCarrier {
        guard let fiber = process.current, !fiber.isKilled else { throw .failed("killed") }
        let other = Int(address.port) - 1
        fiber.pause(links.delay())
        guard !links.isCut(machine, other) else {
            fiber.pause(2_000_000)
            throw .failed("no answer")
        }
        let near = SimulatedNodeLinkEnd(links, from: machine, to: other)
        let far = SimulatedNodeLinkEnd(links, from: other, to: machine)
        near.join(far)
        near.fiber = fiber
        guard links.listen(other, far) else { throw .refused }
        return near
    }
}

/// One end of a link between two nodes.
final class SimulatedNodeLinkEnd: NodeCarrier, @unchecked Sendable {
    private let links: SimulatedNodeLinks
    private let machine: Int
    private let peer: Int
    /// The delays of each end do not depend on other ends, which may write in any order.
    private var random: Randomness
    private weak var other: SimulatedNodeLinkEnd?
    /// The fiber that serves the end.
    var fiber: Fiber?
    /// Bytes on their way to the other end; nil: the end of the link.
    private var flow: [[UInt8]?] = []
    private var isFlowing = false
    private var heldSince: Int64?
    private var received: [[UInt8]] = []
    private var isEnded = false

    init(_ links: SimulatedNodeLinks, from machine: Int, to peer: Int) {
        self.links = links
        self.machine = machine
        self.peer = peer
        random = links.makeRandomness()
    }

    /// The other end of the link. Two ends retain each other until the link ends.
    private var partner: SimulatedNodeLinkEnd?

    func join(_ far: SimulatedNodeLinkEnd) {
        partner = far
        other = far
        far.other = self
    }

    func serve(
        secret: [UInt8], isServer: Bool, _ outbox: LinkOutbox, opened: () -> Void,
        tick: () -> Bool, received: (NodeFrame) -> Bool
    ) -> String {
        guard let fiber else { return "no fiber serves the link" }
        defer {
            self.fiber = nil
            isEnded = true
            push(nil)
        }
        opened()
        var splitter = FrameSplitter(frameBytesMax: NodeLimits.frameBytesMax)
        while true {
            let bytes = outbox.take()
            if !bytes.isEmpty { push(bytes) }
            while !self.received.isEmpty {
                let bytes = self.received.removeFirst()
                var frames: [NodeFrame] = []
                do {
                    try bytes.withUnsafeBytes { (bytes) throws in
                        var chunk = bytes
                        while let frame = try splitter.next(from: &chunk) {
                            frames.append(try NodeFrame.decode(type: frame.type, body: frame.body))
                        }
                    }
                } catch { return "a frame is not understood: \(error)" }
                for frame in frames {
                    guard received(frame) else {
                        let last = outbox.take()
                        if !last.isEmpty { push(last) }
                        return "the link was given up"
                    }
                }
                links.arrived(machine)
            }
            guard !isEnded else { return "the link was lost" }
            fiber.sleep(until: links.agenda.now + 100_000)
            guard !outbox.isClosed, tick() else { return "the link was given up" }
        }
    }

    // MARK: The way

    /// Delay of an overtaken now-or-never message.
    private static let overtakenMicroseconds: Int64 = 1_500_000

    private func push(_ bytes: [UInt8]?) {
        guard let overtaken = links.overtaken, let bytes else { return flow(bytes) }
        var (first, last): ([UInt8], [UInt8]) = ([], [])
        var rest = bytes[...]
        while !rest.isEmpty {
            // The length of a frame counts its type and body.
            let length = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
            let frame = rest.prefix(4 + length)
            rest = rest.dropFirst(frame.count)
            if frame[frame.startIndex + 4] == FrameType.nodeFanout.rawValue {
                last += frame
            } else {
                first += frame
            }
        }
        if !first.isEmpty { flow(first) }
        guard !last.isEmpty else { return }
        overtaken()
        links.agenda.after(Self.overtakenMicroseconds) { [self] in
            if !isEnded { flow(last) }
        }
    }

    private func flow(_ bytes: [UInt8]?) {
        flow.append(bytes)
        guard !isFlowing else { return }
        isFlowing = true
        links.agenda.after(delay()) { [self] in move() }
    }

    private func move() {
        guard !links.isCut(machine, peer) else {
            let since = heldSince ?? links.agenda.now
            heldSince = since
            guard links.agenda.now - since < SimulatedNodeLinks.patience else {
                flow = []
                breakOff()
                other?.breakOff()
                return
            }
            links.agenda.after(SimulatedNodeLinks.retry) { [self] in move() }
            return
        }
        heldSince = nil
        if !flow.isEmpty {
            // The other end of an ended link may be gone.
            let first = flow.removeFirst()
            other?.arrive(first)
        }
        isFlowing = !flow.isEmpty
        if isFlowing { links.agenda.after(delay()) { [self] in move() } }
    }

    private func delay() -> Int64 { random.pause(mean: links.delayMean) }

    private func arrive(_ bytes: [UInt8]?) {
        if let bytes { received.append(bytes) } else { isEnded = true }
        fiber?.wake()
    }

    private func breakOff() {
        isEnded = true
        fiber?.wake()
    }
}
