// SPDX-License-Identifier: Apache-2.0
//
// Settings of the door to push services; every setting has a default. Rests on nothing.

public import Logging

/// The settings of one door.
public struct BridgeConfiguration: Sendable {
    /// GW-11: the URL of Apple's push service.
    public var apnsURL = "https://api.push.apple.com"
    /// GW-11: the URL of Apple's push service for development builds.
    public var apnsSandboxURL = "https://api.sandbox.push.apple.com"
    /// A PEM file with the authorities that certify push services; nil: those of the system.
    public var authorities: String?
    /// Whether a push service may have a private address, such as 127.0.0.1 or 10.0.0.1. For tests, and for a service in
    /// the operator's own network.
    public var allowsPrivateAddresses = false
    /// Logger of the door.
    public var logger = Logger(label: "martlet.bridge")

    /// The default settings: Apple's own servers.
    public init() {}
}
