// SPDX-License-Identifier: Apache-2.0
//
// Changes of bridges (GW-11): the address of an instance at a push service, and a project's keys for these services.
// Pure.

package import MartletBase
package import MartletRows

/// A change of a bridge.
package enum BridgeChange: Sendable {
    /// Gives an instance an address; if a holder is given, only while the ordinal belongs to it. Whoever had the address
    /// before loses it, because a service has one address per installation.
    case setAddress(project: ProjectNumber, ordinal: Ordinal, holder: Holder?, BridgeAddress)
    /// Removes the address of an instance.
    case removeAddress(project: ProjectNumber, ordinal: Ordinal, holder: Holder?)
    /// A push service says that an address is gone (REG-3). If that was the only way to the instance, it is unregistered,
    /// otherwise it loses the address. If it has a new address by now, nothing happens.
    case end(project: ProjectNumber, ordinal: Ordinal, holder: Holder, BridgeAddress)
    /// A push service refused an instance's message for good (REP-1).
    case refuse(BridgeRefusal)
    /// Adds a key, or replaces the key with the same ID.
    case putKey(project: String, BridgeKey)
    case removeKey(project: String, kind: BridgeKind, id: String)

    /// The changed instance's project; nil if an administrator changes keys.
    var project: ProjectNumber? {
        switch self {
        case .setAddress(let project, _, _, _), .removeAddress(let project, _, _),
            .end(let project, _, _, _):
            project
        case .refuse(let refusal): refusal.project
        case .putKey, .removeKey: nil
        }
    }

    /// Whether the change may unregister an instance.
    var asksWhoHas: Bool {
        switch self {
        case .end: true
        case .setAddress, .removeAddress, .refuse, .putKey, .removeKey: false
        }
    }

    /// Whether the change keeps new data (OPS-12).
    var takesRoom: Bool {
        switch self {
        case .setAddress, .putKey: true
        case .removeAddress, .end, .refuse, .removeKey: false
        }
    }
}

/// A message that a push service refused (REP-1).
package struct BridgeRefusal: Sendable {
    package var project: ProjectNumber
    package var ordinal: Ordinal
    package var holder: Holder
    /// The stream ID of the message.
    package var sequence: MessageSequence
    package var kind: BridgeKind
    /// The service's own word, such as `PayloadTooLarge`.
    package var reason: String

    package init(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, sequence: MessageSequence,
        kind: BridgeKind, reason: String
    ) {
        self.project = project
        self.ordinal = ordinal
        self.holder = holder
        self.sequence = sequence
        self.kind = kind
        self.reason = reason
    }
}

/// A committed change, for the doors to push services.
package enum BridgeNews: Sendable, Hashable {
    /// The address of an instance changed, or the instance has no address any more.
    case instance(ProjectNumber, Ordinal)
    /// Two instances: an address changed hands.
    case instances(ProjectNumber, Ordinal, former: Ordinal)
    /// The instance is not registered any more.
    case unregistered(ProjectNumber, Ordinal)
    /// The keys of the project changed.
    case keys(ProjectNumber)
}
