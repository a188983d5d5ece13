// SPDX-License-Identifier: Apache-2.0
//
// The records of instances that a foreign push service reaches (GW-11). An instance has at most one bridge address, and an
// address belongs to at most one instance of a project. A project has keys that sign its requests to each service. Rests on
// MartletBase and MartletCrypto.

public import MartletBase
import MartletCrypto

/// An app's installation at Apple's push service.
public struct APNsAddress: Sendable, Hashable {
    /// The device token. Its size is Apple's matter, up to `Limits.apnsTokenBytesMax` bytes.
    public var token: [UInt8]
    /// Whether the token belongs to the development environment.
    public var isSandbox: Bool
    /// The bundle ID: the topic of the app's notifications.
    public var bundle: String

    public init(token: [UInt8], isSandbox: Bool, bundle: String) {
        self.token = token
        self.isSandbox = isSandbox
        self.bundle = bundle
    }
}

/// A browser's subscription at a push service (RFC 8030, RFC 8291).
public struct WebPushAddress: Sendable, Hashable {
    /// The URL of the subscription.
    public var endpoint: String
    /// The user agent's public key: an uncompressed point of P-256, 65 bytes.
    public var publicKey: [UInt8]
    /// The authentication secret, 16 bytes.
    public var authentication: [UInt8]

    public init(endpoint: String, publicKey: [UInt8], authentication: [UInt8]) {
        self.endpoint = endpoint
        self.publicKey = publicKey
        self.authentication = authentication
    }
}

/// Where a push service reaches an instance.
public enum BridgeAddress: Sendable, Hashable {
    case apns(APNsAddress)
    case webPush(WebPushAddress)

    /// The service of the address.
    public var kind: BridgeKind {
        switch self {
        case .apns: .apns
        case .webPush: .webPush
        }
    }

    /// Identifies the installation. A subscription with new keys stays the same subscription.
    package var digest: SecretDigest {
        var bytes: [UInt8] = [kind.rawValue]
        switch self {
        case .apns(let address):
            bytes.append(address.isSandbox ? 1 : 0)
            bytes.append(UInt8(truncatingIfNeeded: address.token.count))
            bytes += address.token
            bytes += address.bundle.utf8
        case .webPush(let address): bytes += address.endpoint.utf8
        }
        return SecretDigest(bytes: SHA256.hash(bytes))
    }
}

/// A bridge address, and its place in the life of the instance.
public struct Bridging: Sendable, Hashable {
    /// Where the instance is reached.
    public var address: BridgeAddress
    /// Whether the instance never had a connection of its own, because it was imported. REG-3: the end of the address
    /// is the end of such an instance.
    public var isOnlyWay: Bool

    public init(_ address: BridgeAddress, isOnlyWay: Bool) {
        self.address = address
        self.isOnlyWay = isOnlyWay
    }
}

/// A project's key for a push service. The store has the secret half sealed.
public struct BridgeKey: Sendable, Hashable {
    /// The service that the key is for.
    public var kind: BridgeKind
    /// ID of the key, 1 to 64 bytes: Apple's key ID, or the public key of a pair for Web Push.
    public var id: String
    /// Apple's team ID, or the contact of a pair for Web Push.
    public var owner: String
    /// The secret half, sealed with the secret of the data folder.
    public var sealed: [UInt8]
    /// Creation of the row.
    public var created: Instant

    public init(
        kind: BridgeKind, id: String, owner: String, sealed: [UInt8],
        created: Instant = Instant(millisecondsSince1970: 0)
    ) {
        self.kind = kind
        self.id = id
        self.owner = owner
        self.sealed = sealed
        self.created = created
    }
}
