// SPDX-License-Identifier: Apache-2.0
//
// WELCOME, the broker's answer to HELLO: the connection is open. The frame tells the bounds of the connection, and
// tells a new device its credentials for the only time. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// WELCOME (0x02): the connection is open.
public struct Welcome: WireFrame {
    /// Granted role: device, sender, administrator or shared. A new device has become a device.
    public var role: ConnectionRole
    /// NET-2: the broker closes a connection that is silent for more seconds.
    public var idleSeconds: UInt32
    /// NET-3: longest frame that the broker accepts on this connection, in bytes after the length field.
    public var frameBytesMax: UInt32
    /// The broker's clock.
    public var now: Instant
    /// The project's sender ID; 0 for an administrator without a project, and for a shared connection.
    public var senderID: UInt64
    /// Stream ID up to which every message of the device is acknowledged on disk; 0 for other roles.
    public var acknowledgedThrough: UInt64
    /// The registration token, if the device does not know it: for a new device, and for a device whose HELLO had a
    /// former token. Else empty.
    public var token: String
    /// The device key of a new device; else empty.
    public var deviceKey: String

    public init(
        role: ConnectionRole, idleSeconds: UInt32, frameBytesMax: UInt32, now: Instant,
        senderID: UInt64, acknowledgedThrough: UInt64 = 0, token: String = "",
        deviceKey: String = ""
    ) {
        self.role = role
        self.idleSeconds = idleSeconds
        self.frameBytesMax = frameBytesMax
        self.now = now
        self.senderID = senderID
        self.acknowledgedThrough = acknowledgedThrough
        self.token = token
        self.deviceKey = deviceKey
    }

    package var type: FrameType { .welcome }

    package init(from reader: inout WireReader) throws(WireError) {
        let version = try reader.u8()
        guard version == WireVersion.current else { throw .unsupportedVersion(version) }
        role = try reader.choice("role")
        guard role != .newDevice else {
            throw .unknownValue(field: "role", value: UInt64(role.rawValue))
        }
        idleSeconds = try reader.u32()
        frameBytesMax = try reader.u32()
        now = Instant(millisecondsSince1970: try reader.i64())
        senderID = try reader.u64()
        acknowledgedThrough = try reader.u64()
        token = try reader.string()
        deviceKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u8(WireVersion.current)
        writer.u8(role.rawValue)
        writer.u32(idleSeconds)
        writer.u32(frameBytesMax)
        writer.i64(now.millisecondsSince1970)
        writer.u64(senderID)
        writer.u64(acknowledgedThrough)
        writer.string(token)
        writer.string(deviceKey)
    }
}
