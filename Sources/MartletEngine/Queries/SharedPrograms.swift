// SPDX-License-Identifier: Apache-2.0
//
// CON-7: equal conditions share a compiled program, whether they are sent to, counted or explained,
// and on whatever thread. Rests on MartletCondition's cache.

import MartletBase
import MartletCondition
import Synchronization

/// Compiled conditions of one broker.
public final class SharedPrograms: Sendable {
    private let cache = Mutex(ProgramCache())

    public init() {}

    /// The condition of a text, compiled now or earlier.
    func condition(parsing text: String, topicsMax: Int) throws(MartletError) -> Condition {
        try cache.withLock { (cache) throws(MartletError) in
            try cache.condition(parsing: text, topicsMax: topicsMax)
        }
    }
}
