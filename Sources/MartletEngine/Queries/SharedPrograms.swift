// SPDX-License-Identifier: Apache-2.0
//
// CON-7: messages, counts and explanations share the compiled program of a condition, over all threads. Rests on
// MartletCondition's cache.

import MartletBase
import MartletCondition
import Synchronization

/// The compiled conditions of a broker.
package final class SharedPrograms: Sendable {
    private let cache = Mutex(ProgramCache())

    /// Makes an empty cache. A broker has one cache, because all threads share the programs.
    package init() {}

    /// The condition with this text, compiled by this call or by an earlier call.
    func condition(parsing text: String, topicsMax: Int) throws(MartletError) -> Condition {
        try cache.withLock { (cache) throws(MartletError) in
            try cache.condition(parsing: text, topicsMax: topicsMax)
        }
    }
}
