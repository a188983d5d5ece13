// SPDX-License-Identifier: Apache-2.0
//
// HELLO opens a connection: the client claims a role and proves its identity. The broker answers with WELCOME,
// which has the granted role and the bounds of the connection. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// HELLO (0x01): the first frame of every connection, and of every channel with an app.
public enum Hello: WireFrame {
    /// An instance with credentials. `unconfirmed` lists the messages that the application has taken and whose
    /// acknowledgement the broker has not confirmed. HELLO acknowledges them, perhaps for a second time.
    case device(
        projectID: String, token: String, deviceKey: String, state: DeviceState,
        unconfirmed: [UInt64])
    case sender(projectID: String, serverKey: String)
    /// An instance without credentials. WELCOME brings a token and a device key. `credential` is what the project
    /// wants of a new device (REG-7). A frame without the field, as older clients send, means `none`.
    case newDevice(
        projectID: String, appName: String, platform: Platform,
        credential: RegistrationCredential = .none)
    /// An administrator. An empty project ID opens a connection without a project.
    case administrator(administratorKey: String, projectID: String)
    /// The connection of several apps of one device. Each app says HELLO on its own channel.
    case shared

    package var type: FrameType { .hello }

    public var role: ConnectionRole {
        switch self {
        case .device: .device
        case .sender: .sender
        case .newDevice: .newDevice
        case .administrator: .administrator
        case .shared: .shared
        }
    }

    /// Reads HELLO. The version is checked before the later fields, because a later version may change them.
    package init(from reader: inout WireReader) throws(WireError) {
        let magic = try reader.u32()
        guard magic == WireVersion.magic else { throw .wrongMagic(magic) }
        try reader.version()
        let role: ConnectionRole = try reader.choice("role")
        switch role {
        case .device:
            self = .device(
                projectID: try reader.string(), token: try reader.string(),
                deviceKey: try reader.string(), state: try reader.choice("device state"),
                unconfirmed: try reader.list(entryBytesMin: 8) { (reader) throws(WireError) in
                    try reader.u64()
                })
        case .sender:
            self = .sender(projectID: try reader.string(), serverKey: try reader.string())
        case .newDevice:
            self = .newDevice(
                projectID: try reader.string(), appName: try reader.string(),
                platform: try reader.choice("platform"),
                credential: try Self.credential(&reader))
        case .administrator:
            self = .administrator(
                administratorKey: try reader.string(), projectID: try reader.string())
        case .shared: self = .shared
        }
    }

    /// Reads the last field of a new device's HELLO, which may be absent.
    private static func credential(
        _ reader: inout WireReader
    ) throws(WireError) -> RegistrationCredential {
        guard reader.remaining > 0 else { return .none }
        let kind = try reader.u8()
        switch kind {
        case 1: return .key(try reader.string())
        case 2: return .ticket(try reader.string())
        default: throw .unknownValue(field: "credential kind", value: UInt64(kind))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(WireVersion.magic)
        writer.u8(WireVersion.current)
        writer.u8(role.rawValue)
        switch self {
        case .device(let projectID, let token, let deviceKey, let state, let unconfirmed):
            writer.string(projectID)
            writer.string(token)
            writer.string(deviceKey)
            writer.u8(state.rawValue)
            writer.list(unconfirmed) { (writer, streamID) in writer.u64(streamID) }
        case .sender(let projectID, let serverKey):
            writer.string(projectID)
            writer.string(serverKey)
        case .newDevice(let projectID, let appName, let platform, let credential):
            writer.string(projectID)
            writer.string(appName)
            writer.u8(platform.rawValue)
            switch credential {
            case .none: break
            case .key(let text):
                writer.u8(1)
                writer.string(text)
            case .ticket(let text):
                writer.u8(2)
                writer.string(text)
            }
        case .administrator(let administratorKey, let projectID):
            writer.string(administratorKey)
            writer.string(projectID)
        case .shared: break
        }
    }
}
