// SPDX-License-Identifier: Apache-2.0
//
// Results of the calls of `Broker`, as plain values. Rests on MartletBase.

public import MartletBase

/// Credentials with which a new instance connects (REG-1). The device key is told here and never again.
public struct InstanceCredentials: Sendable, Hashable {
    /// Registration token, by which senders address the instance.
    public var token: String
    /// Secret with which the instance proves its identity to the broker.
    public var deviceKey: String

    /// Joins a token with the device key of its instance. `Broker.register(app:platform:in:)` makes both.
    public init(token: String, deviceKey: String) {
        self.token = token
        self.deviceKey = deviceKey
    }
}

/// An instance without its secrets (REG-1).
public struct InstanceSummary: Sendable, Hashable {
    /// Package name or bundle ID.
    public var app: String
    /// Platform of the app.
    public var platform: Platform
    /// Instant of the registration.
    public var registered: Instant
}
