// SPDX-License-Identifier: Apache-2.0
//
// The JSON of an app (REG-8). Property names are the names in the JSON output. Pure.

package import Martlet

package struct AppAnswer: Encodable {
    package var app: String
    /// android, apple or web.
    package var platform: String
    package var instances: UInt64
    package var beingDeleted: Bool

    package init(_ app: AppSummary) {
        self.app = app.name
        platform = app.platform.name
        instances = app.instanceCount
        beingDeleted = app.isBeingDeleted
    }
}
