// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a quota (QUO-3). Property names are the names in the JSON output. Pure.

package import Martlet

package struct QuotaAnswer: Encodable {
    package var quota: String
    package var limit: UInt64
    package var remaining: UInt64
    /// Milliseconds until the quota is full again; nil if the time cannot be known.
    package var untilFullMilliseconds: UInt64?

    package init(_ quota: QuotaSummary) {
        self.quota = quota.name
        limit = quota.limit
        remaining = quota.remaining
        untilFullMilliseconds = quota.untilFullMilliseconds
    }
}
