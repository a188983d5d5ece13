// SPDX-License-Identifier: Apache-2.0
//
// Turns of requests with long bodies.

import MartletGateway
import Synchronization
import Testing

@Suite("Long bodies")
struct LongBodiesTests {
    private final class Served: Sendable {
        let names = Mutex<[String]>([])
    }

    @Test("OPS-5 projects with long bodies take turns")
    func turns() async {
        let bodies = LongBodies(turnCount: 1)
        let served = Served()
        await bodies.begin("a")
        let tasks = ["a", "a", "b", "c", "a", "b"].map { project in
            Task.immediate {
                await bodies.begin(project)
                served.names.withLock { $0.append(project) }
                bodies.end()
            }
        }
        #expect(served.names.withLock { $0 } == [])
        bodies.end()
        for task in tasks { await task.value }
        #expect(served.names.withLock { $0 } == ["a", "b", "c", "a", "b", "a"])
    }

    @Test("OPS-5 a turn ends with its reading, also if that fails")
    func failures() async {
        let bodies = LongBodies(turnCount: 2)
        for _ in 0..<5 {
            let error = await #expect(throws: GatewayError.self) {
                try await bodies.turn(of: "a") { () throws(GatewayError) in
                    throw GatewayError.invalid("No.", field: "f")
                }
            }
            #expect(error?.httpStatus == 400)
        }
        await bodies.begin("a")
        await bodies.begin("b")
    }
}
