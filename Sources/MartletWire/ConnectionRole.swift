// SPDX-License-Identifier: Apache-2.0
//
// The roles of connections, and the fixed numbers of the protocol's version, as in the document WireProtocol. Rests on `Limits`.

import MartletBase

/// Role of the client: the client claims a role in HELLO, and the broker grants a role in WELCOME.
public enum ConnectionRole: UInt8, Sendable, CaseIterable, Hashable {
    /// An instance that proves its identity with a device key.
    case device = 1
    /// An app server of one project.
    case sender = 2
    /// An instance without a token. The role exists only in HELLO, because WELCOME makes the instance a device.
    case newDevice = 3
    /// A client with the administrator key, for one project or for no project.
    case administrator = 4
    /// A device with several instances. Each instance has a channel of the connection.
    case shared = 5

    /// NET-3: longest frame that the broker accepts from a client of this role, in bytes after the length field.
    public var frameBytesMax: Int {
        switch self {
        case .device, .newDevice, .shared: Limits.deviceFrameBytesMax
        case .sender, .administrator: Limits.senderFrameBytesMax
        }
    }
}

/// Fixed numbers of version 1 of the protocol.
public enum WireVersion {
    /// Version of the protocol that the codec reads and writes.
    public static let current: UInt8 = 1
    /// `MRTL`, the first bytes of HELLO's body, read as a little-endian integer.
    public static let magic: UInt32 = 0x4C54_524D
    /// Value of an absent optional `u32`: "retrying cannot help" and "no byte offset" in ERROR, "the default" in
    /// SEND.
    public static let absent: UInt32 = .max
    /// Bytes of a frame's length field.
    public static let lengthBytes = 4
    /// Bit 63 of a stream ID: the message is now or never, and the device must not acknowledge.
    public static let nowOrNeverBit: UInt64 = 1 << 63
}
