// SPDX-License-Identifier: Apache-2.0
//
// How a node's patience with the log grows and shrinks, and the life of the lease with it. Rests on LogPatience.

import MartletCluster
import Testing

@Suite("The patience with a log")
struct PatienceTests {
    @Test("OPS-7 a log that answers as usual has the usual limit, and leases have the usual life")
    func usual() {
        var patience = LogPatience()
        for _ in 0..<10 { patience.answered(after: .milliseconds(2)) }
        #expect(patience.limit == ClusterLimits.attempt)
        #expect(patience.leaseLife == ClusterLimits.leaseLife)
    }

    @Test(
        "OPS-7 the trusted part of a lease has room for three commits, as slow as they are",
        arguments: [100, 500, 1000, 1500, 2000])
    func room(milliseconds: Int) {
        var patience = LogPatience()
        let commit = Duration.milliseconds(milliseconds)
        patience.answered(after: commit)
        let trusted = patience.leaseLife * ClusterLimits.leaseTrustedPerMille / 1000
        #expect(commit * 3 < trusted)
        #expect(commit * 2 < patience.limit)
    }

    @Test("OPS-7 calls that are given up lengthen the limit within a bound, and answers shorten it")
    func late() {
        var patience = LogPatience()
        patience.late()
        #expect(patience.limit > ClusterLimits.attempt)
        for _ in 0..<10 { patience.late() }
        #expect(patience.limit == ClusterLimits.attemptMax)
        #expect(patience.leaseLife == ClusterLimits.leaseLifeMax)
        for _ in 0..<20 { patience.answered(after: .milliseconds(1)) }
        #expect(patience.limit == ClusterLimits.attempt)
        #expect(patience.leaseLife == ClusterLimits.leaseLife)
    }
}
