// SPDX-License-Identifier: Apache-2.0
//
// The frames by which a device says where Apple's push service reaches its app, and an administrator gives a project its keys
// for push services (GW-11). The frames of answers have no secret. Rests on `Lists` and `AdministratorInterface`.

public import MartletBase

/// APNS_TOKEN (0x1B): the device's token of Apple's push service. An empty token takes the token back. Answered by DONE.
public struct APNsTokenRequest: WireFrame {
    public var correlation: UInt32
    /// The bytes of the token; empty: the app is not reached through Apple any more.
    public var token: [UInt8]
    /// Whether the token belongs to the development environment.
    public var isSandbox: Bool
    /// The bundle ID; empty: the name of the instance's app.
    public var bundle: String

    public init(correlation: UInt32 = 0, token: [UInt8], isSandbox: Bool, bundle: String = "") {
        self.correlation = correlation
        self.token = token
        self.isSandbox = isSandbox
        self.bundle = bundle
    }

    package var type: FrameType { .apnsToken }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        token = Array(try reader.stringBytes())
        isSandbox = try reader.flag("sandbox")
        bundle = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.counted(token)
        writer.flag(isSandbox)
        writer.string(bundle)
    }
}

/// ADD_BRIDGE_KEY (0xB3): adds or replaces a project's key for a push service. Answered by DONE.
public struct AddBridgeKeyRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var kind: BridgeKind
    public var keyID: String
    public var owner: String
    /// The private key: PKCS #8, from `BEGIN PRIVATE KEY` to `END PRIVATE KEY`. Empty for Web Push: the broker makes a
    /// pair, and the ID is the public key.
    public var privateKey: String

    public init(
        correlation: UInt32 = 0, projectID: String, kind: BridgeKind, keyID: String, owner: String,
        privateKey: String
    ) {
        self.correlation = correlation
        self.projectID = projectID
        self.kind = kind
        self.keyID = keyID
        self.owner = owner
        self.privateKey = privateKey
    }

    package static var type: FrameType { .addBridgeKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        kind = try reader.choice("push service")
        keyID = try reader.string()
        owner = try reader.string()
        privateKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.u8(kind.rawValue)
        writer.string(keyID)
        writer.string(owner)
        writer.string(privateKey)
    }
}

/// REMOVE_BRIDGE_KEY (0xB4): removes a project's key for a push service. Answered by DONE.
public struct RemoveBridgeKeyRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var kind: BridgeKind
    public var keyID: String

    public init(correlation: UInt32 = 0, projectID: String, kind: BridgeKind, keyID: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.kind = kind
        self.keyID = keyID
    }

    package static var type: FrameType { .removeBridgeKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        kind = try reader.choice("push service")
        keyID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.u8(kind.rawValue)
        writer.string(keyID)
    }
}

/// A project's keys for push services.
package enum BridgeKeys: ListedKind {
    package static var listType: FrameType { .listBridgeKeys }
    package static var pageType: FrameType { .bridgeKeyPage }
    package static var entryBytesMin: Int { 13 }

    package static func decode(
        from reader: inout WireReader
    ) throws(WireError) -> BridgeKeySummary {
        BridgeKeySummary(
            kind: try reader.choice("push service"), id: try reader.string(),
            owner: try reader.string(),
            created: Instant(millisecondsSince1970: try reader.i64()))
    }

    package static func encode(_ key: BridgeKeySummary, into writer: inout WireWriter) {
        writer.u8(key.kind.rawValue)
        writer.string(key.id)
        writer.string(key.owner)
        writer.i64(key.created.millisecondsSince1970)
    }
}

/// LIST_BRIDGE_KEYS (0xB5), answered by BRIDGE_KEY_PAGE.
package typealias ListBridgeKeysRequest = ListRequest<BridgeKeys>
/// BRIDGE_KEY_PAGE (0xB6).
package typealias BridgeKeyPage = ListResult<BridgeKeys>

extension AdministratorInterface {
    /// Adds a key for Apple's push service (GW-11), or replaces the key with the same ID. The data folder keeps the
    /// private key sealed with a secret of the folder.
    /// - Parameters:
    ///   - privateKey: the text of the file `AuthKey_….p8` that Apple gives: an ES256 key in PKCS #8.
    ///   - id: the key ID, 10 characters.
    ///   - teamID: the team ID, 10 characters.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 8 keys.
    public func addAPNsKey(
        _ privateKey: String, id: String, teamID: String, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddBridgeKeyRequest(
                projectID: project, kind: .apns, keyID: id, owner: teamID, privateKey: privateKey))
    }

    /// Adds a private key for Web Push (RFC 8292), or replaces the key with the same ID.
    /// - Parameters:
    ///   - privateKey: an ES256 key in PKCS #8.
    ///   - id: the public key, as the browser's `applicationServerKey` in Base64URL.
    ///   - contact: `mailto:` or `https:`, where a push service reaches the operator.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 8 keys.
    public func addWebPushKey(
        _ privateKey: String, id: String, contact: String, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddBridgeKeyRequest(
                projectID: project, kind: .webPush, keyID: id, owner: contact,
                privateKey: privateKey))
    }

    /// Removes a project's key for a push service. Messages wait until the project has another key.
    /// - Throws: `NOT_FOUND`.
    public func removeBridgeKey(
        _ kind: BridgeKind, _ id: String, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            RemoveBridgeKeyRequest(projectID: project, kind: kind, keyID: id))
    }

    /// A project's keys for push services, without their secret halves.
    /// - Throws: `NOT_FOUND`.
    public func bridgeKeys(in project: String) async throws(Failure) -> [BridgeKeySummary] {
        try await list(BridgeKeys.self, in: project)
    }
}
