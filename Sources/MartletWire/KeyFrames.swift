// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about server keys and their answers. A key itself is told once, when
// it is created; from then on it is spoken of by its ID. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// 0x34.
public struct CreateKeyRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String
    public var name: String

    public init(correlation: UInt32, projectID: String, name: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
    }

    public var type: FrameType { .createKey }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        name = try reader.string()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(name)
    }
}

/// 0x35: the answer to CREATE_KEY.
public struct KeyResult: WireFrame {
    public var correlation: UInt32
    public var keyID: String
    /// The key itself, told this once.
    public var serverKey: String

    public init(correlation: UInt32, keyID: String, serverKey: String) {
        self.correlation = correlation
        self.keyID = keyID
        self.serverKey = serverKey
    }

    public var type: FrameType { .key }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keyID = try reader.string()
        serverKey = try reader.string()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(keyID)
        writer.string(serverKey)
    }
}

/// 0x36: answered by DONE.
public struct RevokeKeyRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String
    public var keyID: String

    public init(correlation: UInt32, projectID: String, keyID: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
    }

    public var type: FrameType { .revokeKey }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        keyID = try reader.string()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(keyID)
    }
}

/// 0x37.
public struct ListKeysRequest: WireFrame {
    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    public var type: FrameType { .listKeys }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// 0x38: the answer to LIST_KEYS.
public struct KeyPage: WireFrame {
    /// A server key without its secret.
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

    public var type: FrameType { .keyPage }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keys = try reader.list(entryBytesMin: 13) { (reader) throws(WireError) in
            Entry(
                keyID: try reader.string(), name: try reader.string(),
                created: Instant(millisecondsSince1970: try reader.i64()),
                isRevoked: try reader.flag("revoked"))
        }
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(keys) { (writer, key) in
            writer.string(key.keyID)
            writer.string(key.name)
            writer.i64(key.created.millisecondsSince1970)
            writer.flag(key.isRevoked)
        }
    }
}
