// SPDX-License-Identifier: Apache-2.0
//
// Shares a condition's compiled program between messages, counts and explanations, over all threads (CON-7). Rests on
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
