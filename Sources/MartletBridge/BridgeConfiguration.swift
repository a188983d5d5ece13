// SPDX-License-Identifier: Apache-2.0
//
// The settings of the door to push services. All have defaults. Rests on nothing.

public import Logging

/// The settings of one door.
public struct BridgeConfiguration: Sendable {
    /// URL of Apple's push service (GW-11).
    public var apnsURL = "https://api.push.apple.com"
    /// URL of Apple's push service for development builds (GW-11).
    public var apnsSandboxURL = "https://api.sandbox.push.apple.com"
    /// PEM file with the authorities that vouch for push services; nil for the system's.
    public var authorities: String?
    /// Whether a push service may have a private address, such as 127.0.0.1 or 10.0.0.1: for tests, and for services in your
    /// own network.
    public var allowsPrivateAddresses = false
    /// Logger of the door.
    public var logger = Logger(label: "martlet.bridge")

    /// The default settings: Apple's own servers.
    public init() {}
}
