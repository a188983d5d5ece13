// SPDX-License-Identifier: Apache-2.0
//
// Changes that an administrator makes to the registrations (REG-7, REG-8) and the limits of a project. Rests on NewKey.

package import MartletBase
import MartletRows

/// A change of a project's policies, limits, keys or apps.
package enum RegistryChange: Sendable {
    /// REG-7, TOP-10: changes the policies. nil leaves a policy unchanged.
    case policies(registration: RegistrationPolicy?, topics: TopicPolicy?)
    /// OPS-2: sets limits of the project's own.
    case limits([ProjectLimitChange])
    case createRegistrationKey(NewKey)
    case revokeRegistrationKey(id: String)
    /// REG-7: adds a key that verifies tickets. The caller has checked that the material is a key of the algorithm.
    case createTicketKey(NewTicketKey)
    case revokeTicketKey(id: String)
    /// REG-8: makes an app.
    case createApp(name: String, platform: Platform)
    /// REG-8: deletes an app. The outcome comes when the deletion has begun. Later transactions unregister the
    /// instances, a bounded number each, and the place of the app is free after the last.
    case deleteApp(name: String, platform: Platform)

    /// OPS-12: whether the change keeps new data.
    var takesRoom: Bool {
        switch self {
        case .policies, .limits, .createRegistrationKey, .createTicketKey, .createApp: true
        case .revokeRegistrationKey, .revokeTicketKey, .deleteApp: false
        }
    }
}
