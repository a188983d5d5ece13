// SPDX-License-Identifier: Apache-2.0
//
// Peers at the node address that have proved nothing make room for later peers, those of the busiest address first (OPS-7).
// Their places go to later peers, and those of the busiest address first.

import MartletCluster
import MartletNode
import Testing

@Suite struct LinkStrangersTests {
    private final class Peer {}

    private let peers = (0...ClusterLimits.strangersMax).map { _ in Peer() }
    private func id(_ number: Int) -> ObjectIdentifier { ObjectIdentifier(peers[number]) }

    @Test("OPS-7: a peer beyond the bound takes the place of the busiest address's oldest")
    func displaced() {
        var strangers = LinkStrangers()
        // The first peer is alone at its address, and two addresses share the rest.
        for number in 0..<ClusterLimits.strangersMax {
            let origin = number == 0 ? "node" : number <= 20 ? "busy" : "other"
            #expect(strangers.add(id(number), from: origin) == nil)
        }
        #expect(strangers.add(id(ClusterLimits.strangersMax), from: "busy") == id(1))
        #expect(strangers.count == ClusterLimits.strangersMax)
    }

    @Test("OPS-7: one address cannot keep another one out, and gives up its own places")
    func oneAddress() {
        var strangers = LinkStrangers()
        for number in 0..<ClusterLimits.strangersMax {
            _ = strangers.add(id(number), from: "busy")
        }
        #expect(strangers.add(id(ClusterLimits.strangersMax), from: "node") == id(0))
    }

    @Test("OPS-7: a peer that has ended leaves its place")
    func removed() {
        var strangers = LinkStrangers()
        for number in 0..<ClusterLimits.strangersMax {
            _ = strangers.add(id(number), from: "busy")
        }
        strangers.remove(id(5))
        #expect(strangers.add(id(ClusterLimits.strangersMax), from: "busy") == nil)
    }

    @Test("OPS-7: peers without a proof are reported once a minute, with their number")
    func reported() {
        var strangers = LinkStrangers()
        #expect(strangers.failed(at: .seconds(10)) == 1)
        #expect(strangers.failed(at: .seconds(11)) == nil)
        #expect(strangers.failed(at: .seconds(69)) == nil)
        #expect(strangers.failed(at: .seconds(70)) == 3)
    }
}
