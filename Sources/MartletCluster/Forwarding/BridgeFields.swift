// SPDX-License-Identifier: Apache-2.0
//
// The fields of changes of bridges (GW-11). The secret half of a key travels sealed, as the store keeps it. Rests on
// BaseFields.

import MartletBase
import MartletEngine
import MartletRows

extension BridgeKind: FieldCoding {}

extension APNsAddress: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            token: try reader.takeBytes(), isSandbox: try reader.take(), bundle: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(bytes: token)
        writer.put(isSandbox)
        writer.put(bundle)
    }
}

extension WebPushAddress: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            endpoint: try reader.take(), publicKey: try reader.takeBytes(),
            authentication: try reader.takeBytes())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(endpoint)
        writer.put(bytes: publicKey)
        writer.put(bytes: authentication)
    }
}

extension BridgeAddress: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        switch try reader.take(BridgeKind.self) {
        case .apns: self = .apns(try reader.take())
        case .webPush: self = .webPush(try reader.take())
        }
    }

    func write(to writer: inout FieldWriter) {
        writer.put(kind)
        switch self {
        case .apns(let address): writer.put(address)
        case .webPush(let address): writer.put(address)
        }
    }
}

extension Bridging: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(try reader.take(), isOnlyWay: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(address)
        writer.put(isOnlyWay)
    }
}

extension BridgeKey: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            kind: try reader.take(), id: try reader.take(), owner: try reader.take(),
            sealed: try reader.takeBytes(), created: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(kind)
        writer.put(id)
        writer.put(owner)
        writer.put(bytes: sealed)
        writer.put(created)
    }
}

extension BridgeRefusal: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            project: try reader.take(), ordinal: try reader.take(), holder: try reader.take(),
            sequence: try reader.take(), kind: try reader.take(), reason: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(project)
        writer.put(ordinal)
        writer.put(holder)
        writer.put(sequence)
        writer.put(kind)
        writer.put(reason)
    }
}

extension BridgeChange: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1:
            self = .setAddress(
                project: try reader.take(), ordinal: try reader.take(),
                holder: try reader.take(), try reader.take())
        case 2:
            self = .removeAddress(
                project: try reader.take(), ordinal: try reader.take(), holder: try reader.take())
        case 3:
            self = .end(
                project: try reader.take(), ordinal: try reader.take(),
                holder: try reader.take(), try reader.take())
        case 4: self = .refuse(try reader.take())
        case 5: self = .putKey(project: try reader.take(), try reader.take())
        case 6:
            self = .removeKey(
                project: try reader.take(), kind: try reader.take(), id: try reader.take())
        default: throw .unknown(field: "bridge change", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        func put<each Field: FieldCoding>(_ kind: UInt8, _ fields: repeat each Field) {
            writer.put(byte: kind)
            for field in repeat each fields { writer.put(field) }
        }
        switch self {
        case .setAddress(let project, let ordinal, let holder, let address):
            put(1, project, ordinal, holder, address)
        case .removeAddress(let project, let ordinal, let holder): put(2, project, ordinal, holder)
        case .end(let project, let ordinal, let holder, let address):
            put(3, project, ordinal, holder, address)
        case .refuse(let refusal): put(4, refusal)
        case .putKey(let project, let key): put(5, project, key)
        case .removeKey(let project, let kind, let id): put(6, project, kind, id)
        }
    }
}

extension BridgeNews: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .instance(try reader.take(), try reader.take())
        case 2: self = .instances(try reader.take(), try reader.take(), former: try reader.take())
        case 3: self = .unregistered(try reader.take(), try reader.take())
        case 4: self = .keys(try reader.take())
        default: throw .unknown(field: "bridge news", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        func put<each Field: FieldCoding>(_ kind: UInt8, _ fields: repeat each Field) {
            writer.put(byte: kind)
            for field in repeat each fields { writer.put(field) }
        }
        switch self {
        case .instance(let project, let ordinal): put(1, project, ordinal)
        case .instances(let project, let ordinal, let former): put(2, project, ordinal, former)
        case .unregistered(let project, let ordinal): put(3, project, ordinal)
        case .keys(let project): put(4, project)
        }
    }
}
