// SPDX-License-Identifier: Apache-2.0
//
// kill -9 under load, again and again on one data folder. Before each kill devices change their
// subscriptions, one sender changes those of fifty devices at a time, another sends to tokens, topics
// and conditions, and a third sends what replaces, expires, is urgent, reported on, scheduled and
// cancelled, and asks again for what was not answered. After each the store is opened here and asked
// whether everything that was acknowledged is there, and nothing that was replaced, expired or
// cancelled; the next process has to deliver it, also to devices that doze. Rests on CrashWorld.

import Testing

@Suite("Crashes", .serialized)
struct CrashTests {
    @Test(
        "OPS-4 TOP-7 MSG-6 TTL-3 TTL-4 COL-1 PRI-1 MSG-9 MSG-10 RCP-1: fifty times killed under load, nothing acknowledged is lost, every index agrees, and each message reaches whom it was for and nobody else, once a connection, unless it was replaced, cancelled or expired"
    )
    func kills() async throws {
        let world = try await CrashWorld()
        for cycle in 0..<50 {
            let readers = (0..<3).map { _ in Int.random(in: 4..<100) }
            // Some do not even get to listen.
            if Int.random(in: 0..<3) == 0 {
                try Server.startAndKill(
                    folder: world.folder, after: UInt32.random(in: 0...60_000))
            }
            try world.cycle(
                cycle, readers: Array(Set(readers)), killAfter: Int.random(in: 1...16))
            // Tests that wait have the thread now.
            await Task.yield()
        }
        #expect(world.accepted.count > 500, "the load was too light to prove anything")
        #expect(world.counts.delivered > 100)
        // A last process, killed too: everybody comes and gets everything.
        try world.cycle(50, readers: Array(4..<100), [.awake, .wakes], killAfter: 0)
        #expect(world.counts.dozing > 10 && world.told.count > 10)
        #expect(world.gone.count > 50 && world.replaced().certainly.count > 20)
        #expect(world.counts.live > 100 && world.counts.askedAgain > 10)
        #expect(world.counts.scheduled > 20)
        try world.verifyReceipts()
    }
}
