// SPDX-License-Identifier: Apache-2.0
//
// The push services that reach instances without a connection (GW-11). Rests on nothing.

/// A push service that a bridge hands messages to.
public enum BridgeKind: UInt8, Sendable, Hashable, CaseIterable {
    /// Apple's push service.
    case apns = 1
    /// A push service for browsers (RFC 8030).
    case webPush = 2

    /// The name in JSON and in the terminal.
    public var name: String {
        switch self {
        case .apns: "apns"
        case .webPush: "webpush"
        }
    }
}

/// GW-11: how often a push service refused a message for a reason.
public struct RefusalCount: Sendable, Hashable {
    /// The service that refused.
    public var kind: BridgeKind
    /// The service's own word; `other` for the reasons beyond `Limits.refusalReasonsMax`.
    public var reason: String
    /// Instances for which the message was refused.
    public var count: UInt64

    public init(kind: BridgeKind, reason: String, count: UInt64) {
        self.kind = kind
        self.reason = reason
        self.count = count
    }
}
