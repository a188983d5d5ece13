// SPDX-License-Identifier: Apache-2.0
//
// The broker's answer to HELLO: the connection is open, and these are its bounds. For a new device
// it carries the credentials, which are told this once. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// 0x02.
public struct Welcome: WireFrame {
    /// Device, sender, administrator or shared; a new device has become a device.
    public var role: ConnectionRole
    /// NET-2: a connection silent for longer is closed.
    public var idleSeconds: UInt32
    /// NET-3: the longest frame that the broker takes on this connection.
    public var frameBytesMax: UInt32
    /// The broker's clock.
    public var now: Instant
    /// The project's number; 0 for an administrator without project, and for a shared connection.
    public var senderID: UInt64
    /// Every message up to here is acknowledged for good. 0 but for devices.
    public var acknowledgedThrough: UInt64
    /// The registration token where the device has not heard of it: of a new device, and of one
    /// whose HELLO had a former one; else empty.
    public var token: String
    /// New devices: the device key, else empty.
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

    public var type: FrameType { .welcome }

    public init(from reader: inout WireReader) throws(WireError) {
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

    public func encodeBody(into writer: inout WireWriter) {
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
