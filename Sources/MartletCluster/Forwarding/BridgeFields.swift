// SPDX-License-Identifier: Apache-2.0
//
// The fields of changes of bridges (GW-11). The secret half of a key travels sealed, as the store keeps it. Rests on
// BaseFields.

import MartletBase
import MartletEngine
import MartletRows

extension BridgeKind: FieldCoding {}

extension APNsAddress: ListedFields {
    static var fieldList: some FieldListing<APNsAddress> {
        FieldList(APNsAddress.init(token:isSandbox:bundle:)) { ($0.token, $0.isSandbox, $0.bundle) }
    }
}

extension WebPushAddress: ListedFields {
    static var fieldList: some FieldListing<WebPushAddress> {
        FieldList(WebPushAddress.init(endpoint:publicKey:authentication:)) {
            ($0.endpoint, $0.publicKey, $0.authentication)
        }
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

extension Bridging: ListedFields {
    static var fieldList: some FieldListing<Bridging> {
        FieldList(Bridging.init(_:isOnlyWay:)) { ($0.address, $0.isOnlyWay) }
    }
}

extension BridgeKey: ListedFields {
    static var fieldList: some FieldListing<BridgeKey> {
        FieldList(BridgeKey.init(kind:id:owner:sealed:created:)) {
            ($0.kind, $0.id, $0.owner, $0.sealed, $0.created)
        }
    }
}

extension BridgeRefusal: ListedFields {
    static var fieldList: some FieldListing<BridgeRefusal> {
        FieldList(BridgeRefusal.init(project:ordinal:holder:sequence:kind:reason:)) {
            ($0.project, $0.ordinal, $0.holder, $0.sequence, $0.kind, $0.reason)
        }
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
