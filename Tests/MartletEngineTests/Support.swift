// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the engine's rules share. Rests on EngineBench.

import EngineBench
import MartletEngine
import Testing

extension Bench {
    func expectClean(_ location: SourceLocation = #_sourceLocation) throws {
        let report = try store.check()
        #expect(report.problemCount == 0, "\(report.problems)", sourceLocation: location)
    }
}
