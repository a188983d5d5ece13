// SPDX-License-Identifier: Apache-2.0
//
// Changes that an administrator makes to the registrations (REG-7, REG-8) and the limits of a project. Rests on NewKey.

package import MartletBase
import MartletRows

/// A change of a project's policies, limits, keys or apps.
package enum RegistryChange: Sendable {
    /// Changes the policies (REG-7, TOP-10); nil leaves one unchanged.
    case policies(registration: RegistrationPolicy?, topics: TopicPolicy?)
    /// Gives the project limits of its own (OPS-2).
    case limits([ProjectLimitChange])
    case createRegistrationKey(NewKey)
    case revokeRegistrationKey(id: String)
    /// Adds a key that verifies tickets (REG-7). The caller has checked that the material is a key of the algorithm.
    case createTicketKey(NewTicketKey)
    case revokeTicketKey(id: String)
    /// Makes an app (REG-8).
    case createApp(name: String, platform: Platform)
    /// Deletes an app (REG-8). The outcome comes when the deletion has begun. Later transactions unregister the
    /// instances, a bounded number each, and the place of the app is free after the last.
    case deleteApp(name: String, platform: Platform)

    /// Whether the change keeps new data (OPS-12).
    var takesRoom: Bool {
        switch self {
        case .policies, .limits, .createRegistrationKey, .createTicketKey, .createApp: true
        case .revokeRegistrationKey, .revokeTicketKey, .deleteApp: false
        }
    }
}
