// SPDX-License-Identifier: Apache-2.0
//
// Nodes that get no link hear why. Rests on LinkPeer.

import Martlet
import MartletBase
import MartletCluster
import MartletNode
import MartletPostgres
import MartletRows
import MartletWire
import Testing

@Suite(
    "Nodes that get no link", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct RefusedNodeTests {
    /// Why a HELLO is refused: the field that the ERROR names, and the fault.
    private static let refused: [(field: String, fault: @Sendable (inout NodeHello) -> Void)] = [
        (
            "incarnation",
            { $0.position = position(of: $0, incarnation: Array(repeating: 7, count: 16)) }
        ),
        ("epoch", { $0.position = position(of: $0, epoch: $0.position.epoch + 1) }),
        ("node", { $0.node = "a" }),
        ("node", { $0.node = "no name" }),
        ("formats", { $0.rowFormats = 60_000...60_001 }),
        ("formats", { $0.commandFormats = 200...201 }),
    ]

    private static func position(
        of hello: NodeHello, incarnation: [UInt8]? = nil, epoch: UInt32? = nil
    ) -> NodePosition {
        NodePosition(
            incarnation: incarnation ?? hello.position.incarnation,
            epoch: epoch ?? hello.position.epoch, row: hello.position.row,
            chain: hello.position.chain)
    }

    private func hello(at position: NodePosition) -> NodeHello {
        NodeHello(
            position: position, node: "stranger", address: "127.0.0.1:1", process: 1, run: 0,
            rowFormats: LinkFormat.rows, commandFormats: LinkFormat.readable)
    }

    @Test(
        "OPS-7 a HELLO that a node does not take gets an ERROR with the reason, and the link ends")
    func refusesHello() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        try await bench.start("a")
        _ = try await bench.active()
        let incarnation = try bench.log().identity(within: .ample).incarnation
        let patience = Patience("the node does not count as active")
        while !bench.broker("a").metricsText.contains("\nmartlet_cluster_active 1") {
            try patience.wait()
        }
        let tail = try bench.log().tail(within: .ample)
        let position = NodePosition(
            incarnation: incarnation, epoch: tail.epoch, row: tail.row, chain: tail.chain)
        for (field, fault) in Self.refused {
            let peer = try LinkPeer(bench, to: "a", incarnation: incarnation)
            var hello = hello(at: position)
            fault(&hello)
            try peer.send(.hello(hello))
            var last: NodeFrame?
            while let frame = try peer.next() { last = frame }
            guard case .error(let refusal) = last else {
                Issue.record(
                    "a HELLO with a wrong \(field) was answered by \(String(describing: last))")
                continue
            }
            #expect(refusal.error.field == field)
        }
        // A client's HELLO, and what is no frame of nodes.
        for bytes in [[5, 0, 0, 0, 0x01, 1, 2, 3, 4], [1, 0, 0, 0, 0x10]] as [[UInt8]] {
            let peer = try LinkPeer(bench, to: "a", incarnation: incarnation)
            try peer.send(bytes)
            guard case .error(let refusal)? = try peer.next() else {
                Issue.record("what is no HELLO of a node gets no ERROR")
                continue
            }
            #expect(refusal.error.word == .protocolViolation)
            #expect(try peer.next() == nil)
        }
        // The same peer without a fault gets its link.
        let peer = try LinkPeer(bench, to: "a", incarnation: incarnation)
        try peer.send(.hello(hello(at: position)))
        guard case .hello(let answer)? = try peer.next() else {
            Issue.record("a node without a fault gets no link")
            return
        }
        #expect(answer.isActive)
        try await bench.end()
    }

    @Test(
        "OPS-7 nodes with a common format of rows and of links understand each other, and no others",
        arguments: [
            (LinkFormat.rows, LinkFormat.readable, true),
            (1...9, LinkFormat.readable, true),
            (9...9, LinkFormat.readable, false),
            (LinkFormat.rows, 9...9, false),
        ] as [(ClosedRange<UInt16>, ClosedRange<UInt8>, Bool)])
    func formats(
        rows: ClosedRange<UInt16>, commands: ClosedRange<UInt8>, areCommon: Bool
    ) {
        var hello = hello(
            at: NodePosition(
                incarnation: Array(repeating: 1, count: 16), epoch: 1, row: 1,
                chain: Array(repeating: 2, count: 16)))
        hello.rowFormats = rows
        hello.commandFormats = commands
        #expect(LinkFormat.isCommon(hello) == areCommon)
    }
}
