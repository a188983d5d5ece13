// SPDX-License-Identifier: Apache-2.0
//
// The frames between nodes of a cluster: the values of their vectors, random values, and the wall between node links and
// client connections (OPS-7).

import MartletBase
import MartletWire
import Testing

private let incarnation = Array(1...16 as ClosedRange<UInt8>)
private let chain = Array(0xA0...0xAF as ClosedRange<UInt8>)

private func position(epoch: UInt32, row: UInt64) -> NodePosition {
    NodePosition(incarnation: incarnation, epoch: epoch, row: row, chain: chain)
}

private let delivery = UpstreamDelivery(
    number: 501, accepted: Instant(millisecondsSince1970: 1_760_000_000_000),
    expires: Instant(millisecondsSince1970: 1_760_003_600_000), token: "tok-7",
    appName: "com.example.tides", messageID: "reading-7",
    message: [0x04, 0x07, 0x00, 0x02, 0x00, 0x63, 0x6D, 0x34, 0x31, 0x32])

private let load: BrokerStatus = {
    var status = BrokerStatus(now: Instant(millisecondsSince1970: 1_760_000_000_000))
    status.connectionCount = 12
    status.deliveredCount = 500
    status.acknowledgedCount = 490
    status.fellBehindCount = 1
    status.frameBytes = 4096
    status.storeBytesUsed = 1_048_576
    return status
}()

private let watched: NodeEvents = {
    var sums = NodeEvents.Sums()
    (sums.accepted, sums.upstream, sums.refused) = (2, 1, 1)
    (sums.connected, sums.disconnected, sums.dropped) = (5, 3, 4)
    (sums.counts.targeted, sums.counts.acknowledged) = (40, 38)
    return NodeEvents(
        node: "b", project: ProjectNumber(7), connectionCount: 12, sums: sums,
        events: [
            .accepted(
                messageID: "projects/tides/messages/9", recipientCount: 40, isDeferred: false,
                isScheduled: true),
            .progress(
                messageID: "projects/tides/messages/8", recipientCount: 40, deliveredCount: 39,
                isDone: true),
            .refused(
                MartletError(
                    .quotaExceeded, "Too much.", field: "target", retryDelayMilliseconds: 500)),
        ])
}()

let nodeVectors: [String: AnyFrame] = [
    "node-hello": .node(
        .hello(
            NodeHello(
                position: position(epoch: 3, row: 1000), node: "b", address: "10.0.0.2:5229",
                process: 0x1122_3344_5566_7788, run: 0, rowFormats: 1...2, commandFormats: 1...1))),
    "node-hello-active": .node(
        .hello(
            NodeHello(
                position: position(epoch: 4, row: 70_000), node: "b", address: "10.0.0.2:5229",
                process: 0x1122_3344_5566_7788, run: 8, peerRun: 9, isActive: true,
                rowFormats: 1...1, commandFormats: 1...2))),
    "node-committed": .node(.committed(NodeCommitted(row: 1001, chain: chain))),
    "node-forward": .node(.forward(NodeForward(run: 9, number: 5, command: [1, 24]))),
    "node-ended": .node(
        .ended(
            NodeEnded(entries: [
                .init(
                    project: ProjectNumber(1), messageNumber: 41, delivered: 500, blocks: 12,
                    isEnded: false),
                .init(
                    project: ProjectNumber(2), messageNumber: 42, delivered: 0, blocks: 0,
                    isEnded: true),
            ]))),
    "node-listen": .node(
        .listen(NodeListen(operation: .listen, project: ProjectNumber(1), listener: 4))),
    "node-listen-retire": .node(
        .listen(
            NodeListen(
                operation: .retire, project: ProjectNumber(1), listener: 4, kept: [17, 19]))),
    "node-upstream": .node(.upstream(NodeUpstream(listener: 4, delivery: delivery))),
    "node-figures": .node(
        .figures(NodeFigures(node: "b", isActive: false, fanouts: [], status: load))),
    "node-watch": .node(
        .watch(NodeWatch(projects: [NodeWatch.Entry(project: ProjectNumber(7), id: "tides")]))),
    "node-events": .node(.events(watched)),
    "node-fanout": .node(.fanout(NodeFanout(row: 1001, events: [1, 0, 0, 0, 4]))),
    "node-quotas": .node(
        .quotas(
            NodeQuotas(entries: [
                .init(
                    project: ProjectNumber(7), quota: .registrations,
                    left: QuotaLeft(remaining: 2900, untilFullMilliseconds: 34)),
                .init(
                    project: ProjectNumber(7), quota: .upstream,
                    left: QuotaLeft(remaining: 0, untilFullMilliseconds: 60_000)),
            ]))),
    "node-row": .node(.row(NodeRow(epoch: 4, row: 1002, chain: chain, body: [1, 2, 3]))),
]

extension RandomFrames {
    private mutating func sixteen() -> [UInt8] { (0..<16).map { _ in u8() } }

    private mutating func nodeEvents() -> NodeEvents {
        var sums = NodeEvents.Sums()
        (sums.accepted, sums.upstream, sums.refused) = (u64(), u64(), u64())
        (sums.connected, sums.disconnected, sums.dropped) = (u64(), u64(), u64())
        sums.counts = counts()
        return NodeEvents(
            node: text(), project: ProjectNumber(u32()), connectionCount: u64(), sums: sums,
            events: list { frames in
                switch Int.random(in: 0..<3, using: &frames.random) {
                case 0:
                    .accepted(
                        messageID: frames.text(), recipientCount: frames.u64(),
                        isDeferred: frames.flag(), isScheduled: frames.flag())
                case 1:
                    .progress(
                        messageID: frames.text(), recipientCount: frames.u64(),
                        deliveredCount: frames.u64(), isDone: frames.flag())
                default:
                    .refused(
                        MartletError(
                            frames.one(), frames.text(), field: frames.text(),
                            byteOffset: frames.flag() ? nil : frames.u32() >> 1,
                            retryDelayMilliseconds: frames.flag() ? nil : frames.u32() >> 1))
                }
            })
    }

    mutating func node() -> NodeFrame {
        switch Int.random(in: 0..<15, using: &random) {
        case 0:
            .hello(
                NodeHello(
                    position: NodePosition(
                        incarnation: sixteen(), epoch: u32(), row: u64(), chain: sixteen()),
                    node: text(), address: text(), process: u64(), run: u32(), peerRun: u32(),
                    isActive: flag(), rowFormats: (u16() >> 8)...(u16() | 0xFF00),
                    commandFormats: (u8() >> 4)...(u8() | 0xF0)))
        case 1: .ping(Ping(value: u64()))
        case 2: .pong(Pong(value: u64()))
        case 3:
            .error(ErrorFrame(correlation: u32(), error: MartletError(one(), text())))
        case 4: .committed(NodeCommitted(row: u64(), chain: sixteen()))
        case 5: .forward(NodeForward(run: u32(), number: u64(), command: bytes()))
        case 6:
            .ended(
                NodeEnded(
                    entries: list {
                        .init(
                            project: ProjectNumber($0.u32()), messageNumber: $0.u64(),
                            delivered: $0.u64(), blocks: $0.u32(), isEnded: $0.flag())
                    }))
        case 7:
            .listen(
                NodeListen(
                    operation: one(), project: ProjectNumber(u32()), listener: u64(),
                    kept: list { $0.u64() }))
        case 8:
            .upstream(
                NodeUpstream(
                    listener: u64(),
                    delivery: UpstreamDelivery(
                        number: u64(), accepted: instant(), expires: instant(), token: text(),
                        appName: text(), messageID: text(), message: bytes())))
        case 9:
            .figures(
                NodeFigures(
                    node: text(), isActive: flag(), fanouts: list { $0.fanout() },
                    status: status()))
        case 10:
            .watch(
                NodeWatch(
                    projects: list { .init(project: ProjectNumber($0.u32()), id: $0.text()) }))
        case 13:
            .quotas(
                NodeQuotas(
                    entries: list {
                        .init(
                            project: ProjectNumber($0.u32()),
                            quota: CountedQuota(rawValue: 1 + $0.u8() % 3) ?? .upstream,
                            left: QuotaLeft(
                                remaining: $0.u64(), untilFullMilliseconds: $0.u64()))
                    }))
        case 12: .row(NodeRow(epoch: u32(), row: u64(), chain: sixteen(), body: bytes()))
        case 11: .fanout(NodeFanout(row: u64(), events: bytes()))
        default: .events(nodeEvents())
        }
    }
}

@Suite struct NodeFrameTests {
    /// Types of frames of a link alone.
    private static let types: [FrameType] = [
        .committed, .forward, .ended, .listen, .nodeUpstream, .nodeFigures, .nodeWatch, .nodeEvents,
        .nodeFanout, .nodeRow, .nodeQuotas,
    ]

    @Test("OPS-7 a client and a broker never take a frame of a link", arguments: types)
    func wall(type: FrameType) {
        #expect(throws: WireError.unexpectedFrame(type)) {
            try ClientFrame.decode(type: type.rawValue, body: [UInt8]().span.bytes)
        }
        #expect(throws: WireError.unexpectedFrame(type)) {
            try BrokerFrame.decode(type: type.rawValue, body: [UInt8]().span.bytes)
        }
    }

    @Test("OPS-7 a node never takes a frame of a client or a broker")
    func otherWay() {
        let shared: Set<FrameType> = Set(Self.types).union([.hello, .ping, .pong, .error])
        for type in FrameType.allCases where !shared.contains(type) {
            #expect(throws: WireError.unexpectedFrame(type)) {
                try NodeFrame.decode(type: type.rawValue, body: [UInt8]().span.bytes)
            }
        }
    }

    @Test("OPS-7 the HELLO of a client is refused by a node by its role, and a node's by a broker")
    func roles() throws {
        let device = try Vectors.bytes("hello-device")
        #expect(throws: WireError.unknownValue(field: "role", value: 1)) {
            try NodeFrame.decode(type: device[4], body: Array(device[5...]).span.bytes)
        }
        let node = try Vectors.bytes("node-hello")
        #expect(throws: WireError.unknownValue(field: "role", value: 6)) {
            try ClientFrame.decode(type: node[4], body: Array(node[5...]).span.bytes)
        }
        var older = node
        older[9] = 2
        #expect(throws: WireError.unsupportedVersion(2)) {
            try NodeFrame.decode(type: older[4], body: Array(older[5...]).span.bytes)
        }
    }

    @Test("OPS-7 ranges of formats that end before they begin are refused, not trapped")
    func ranges() throws {
        var bytes = try Vectors.bytes("node-hello")
        // The four formats are the last six bytes.
        bytes[bytes.count - 6] = 3
        #expect(throws: WireError.unknownValue(field: "row formats", value: 2)) {
            try NodeFrame.decode(type: bytes[4], body: Array(bytes[5...]).span.bytes)
        }
        bytes = try Vectors.bytes("node-hello")
        bytes[bytes.count - 2] = 2
        #expect(throws: WireError.unknownValue(field: "command formats", value: 1)) {
            try NodeFrame.decode(type: bytes[4], body: Array(bytes[5...]).span.bytes)
        }
    }

    @Test("OPS-7 the bounds of a link hold the longest frames that nodes send")
    func bounds() throws {
        var writer = WireWriter()
        let forward = NodeForward(
            run: 1, number: 1, command: [UInt8](repeating: 0, count: 64 << 20))
        NodeFrame.forward(forward).encode(into: &writer)
        #expect(writer.bytes.count - WireVersion.lengthBytes <= NodeLimits.frameBytesMax)
        writer.reset()
        // A host name has at most 255 bytes.
        let hello = NodeHello(
            position: position(epoch: 1, row: 1), node: String(repeating: "n", count: 40),
            address: String(repeating: "h", count: 255) + ":65535", process: 1, run: 1,
            rowFormats: 1...1, commandFormats: 1...1)
        NodeFrame.hello(hello).encode(into: &writer)
        #expect(writer.bytes.count - WireVersion.lengthBytes <= NodeLimits.helloBytesMax)
        writer.reset()
        let entry = NodeEnded.Entry(
            project: ProjectNumber(1), messageNumber: 1, delivered: 1, blocks: 1, isEnded: true)
        let ended = NodeEnded(
            entries: Array(repeating: entry, count: NodeLimits.endedEntriesMax))
        NodeFrame.ended(ended).encode(into: &writer)
        #expect(!writer.isClipped)
    }
}
