// SPDX-License-Identifier: Apache-2.0
//
// Instants as text. Rests on FoundationEssentials.

import FoundationEssentials
package import Martlet

extension Martlet.Instant {
    /// The instant in ISO 8601, in UTC.
    package var iso8601: String {
        Date(timeIntervalSince1970: Double(millisecondsSince1970) / 1000)
            .formatted(.iso8601)
    }
}
