// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about server keys, and the answers. The broker tells the text of a key once, when the
// key is created. All other frames name the key by its ID. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// CREATE_KEY (0x34): creates a server key for a project. Answered by KEY.
public struct CreateKeyRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String
    public var name: String

    public init(correlation: UInt32, projectID: String, name: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
    }

    package var type: FrameType { .createKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        name = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(name)
    }
}

/// KEY (0x35): the answer to CREATE_KEY.
public struct KeyResult: WireFrame {
    public var correlation: UInt32
    public var keyID: String
    /// The text of the server key. The broker tells the text only here.
    public var serverKey: String

    public init(correlation: UInt32, keyID: String, serverKey: String) {
        self.correlation = correlation
        self.keyID = keyID
        self.serverKey = serverKey
    }

    package var type: FrameType { .key }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keyID = try reader.string()
        serverKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(keyID)
        writer.string(serverKey)
    }
}

/// REVOKE_KEY (0x36): revokes a server key. Answered by DONE.
public struct RevokeKeyRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String
    public var keyID: String

    public init(correlation: UInt32, projectID: String, keyID: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
    }

    package var type: FrameType { .revokeKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        keyID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(keyID)
    }
}

/// LIST_KEYS (0x37): asks for the server keys of a project. Answered by KEY_PAGE.
public struct ListKeysRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package var type: FrameType { .listKeys }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// KEY_PAGE (0x38): the answer to LIST_KEYS.
public struct KeyPage: WireFrame {
    /// A server key without the secret.
    public struct Entry: Sendable, Hashable {
        public var keyID: String
        public var name: String
        public var created: Instant
        public var isRevoked: Bool

        public init(keyID: String, name: String, created: Instant, isRevoked: Bool) {
            self.keyID = keyID
            self.name = name
            self.created = created
            self.isRevoked = isRevoked
        }
    }

    public var correlation: UInt32
    public var keys: [Entry]

    public init(correlation: UInt32, keys: [Entry]) {
        self.correlation = correlation
        self.keys = keys
    }

    package var type: FrameType { .keyPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keys = try reader.list(entryBytesMin: 13) { (reader) throws(WireError) in
            Entry(
                keyID: try reader.string(), name: try reader.string(),
                created: Instant(millisecondsSince1970: try reader.i64()),
                isRevoked: try reader.flag("revoked"))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(keys) { (writer, key) in
            writer.string(key.keyID)
            writer.string(key.name)
            writer.i64(key.created.millisecondsSince1970)
            writer.flag(key.isRevoked)
        }
    }
}
