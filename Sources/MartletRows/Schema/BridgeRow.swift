// SPDX-License-Identifier: Apache-2.0
//
// The bytes of bridge addresses and of the keys for push services (GW-11). Rests on RecordBytes.
//
//   bridges      u8 kind ‖ u8 flags ‖ address
//                flags: 1 the address is the instance's only way, 2 Apple's development environment
//                address of APNs: text bundle ‖ token; of Web Push: 65 bytes public key ‖ 16 bytes secret ‖ endpoint
//   bridgeKeys   i64 created ‖ text owner ‖ sealed secret half; the kind and the ID are in the row's key

package import MartletBase

/// A value of the table `bridges`.
package enum BridgeRow {
    private static let onlyWayFlag: UInt8 = 1
    private static let sandboxFlag: UInt8 = 2

    package static func bytes(_ bridging: Bridging) -> [UInt8] {
        var writer = RecordWriter()
        writer.append(bridging.address.kind.rawValue)
        var flags = bridging.isOnlyWay ? onlyWayFlag : 0
        switch bridging.address {
        case .apns(let address):
            if address.isSandbox { flags |= sandboxFlag }
            writer.append(flags)
            writer.append(text: address.bundle)
            writer.bytes += address.token
        case .webPush(let address):
            writer.append(flags)
            writer.bytes += address.publicKey
            writer.bytes += address.authentication
            writer.bytes += address.endpoint.utf8
        }
        return writer.bytes
    }

    package static func bridging(
        _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> Bridging {
        var reader = RecordReader(bytes, of: .bridges)
        guard let kind = BridgeKind(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        let flags = try reader.read(UInt8.self)
        let address: BridgeAddress
        switch kind {
        case .apns:
            let bundle = try reader.text()
            address = .apns(
                APNsAddress(
                    token: Array(reader.rest()), isSandbox: flags & sandboxFlag != 0,
                    bundle: bundle))
        case .webPush:
            let publicKey = Array(try reader.bytes(Limits.webPushPublicKeyBytes))
            let secret = Array(try reader.bytes(Limits.webPushSecretBytes))
            address = .webPush(
                WebPushAddress(
                    endpoint: String(decoding: reader.rest(), as: UTF8.self),
                    publicKey: publicKey, authentication: secret))
        }
        return Bridging(address, isOnlyWay: flags & onlyWayFlag != 0)
    }
}

/// A row of the table `bridgeKeys`.
package enum BridgeKeyRow {
    /// p ‖ u8 kind ‖ key ID
    package static func key(_ kind: BridgeKind, _ id: String, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(byte: kind.rawValue)
        key.append(name: id.utf8)
        return key
    }

    package static func bytes(_ key: BridgeKey) -> [UInt8] {
        var writer = RecordWriter()
        writer.append(key.created.millisecondsSince1970)
        writer.append(text: key.owner)
        writer.bytes += key.sealed
        return writer.bytes
    }

    package static func bridgeKey(
        _ place: RowKey, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> BridgeKey {
        var reader = RecordReader(bytes, of: .bridgeKeys)
        guard place.count > 5, let kind = BridgeKind(rawValue: place[4]) else {
            throw reader.damaged()
        }
        let created = Instant(millisecondsSince1970: try reader.read(Int64.self))
        let owner = try reader.text()
        return BridgeKey(
            kind: kind, id: String(decoding: place.dropFirst(5), as: UTF8.self), owner: owner,
            sealed: Array(reader.rest()), created: created)
    }
}
