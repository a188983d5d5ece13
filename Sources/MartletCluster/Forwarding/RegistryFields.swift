// SPDX-License-Identifier: Apache-2.0
//
// The fields of registrations, keys and changes of topics. A key travels as its digest: the node that a client talks
// to makes the key and tells the client. The exceptions are the materials of ticket keys and public keys, which the
// store keeps. Rests on BaseFields.

import MartletBase
import MartletEngine
import MartletRows

extension NewKey: ListedFields {
    static var fieldList: some FieldListing<NewKey> {
        FieldList(NewKey.init(id:name:digest:)) { ($0.id, $0.name, $0.digest) }
    }
}

extension NewServiceAccountKey: ListedFields {
    static var fieldList: some FieldListing<NewServiceAccountKey> {
        FieldList(NewServiceAccountKey.init(id:name:clientEmail:publicKey:)) {
            ($0.id, $0.name, $0.clientEmail, $0.publicKey)
        }
    }
}

extension NewTicketKey: ListedFields {
    static var fieldList: some FieldListing<NewTicketKey> {
        FieldList(NewTicketKey.init(id:name:algorithm:material:)) {
            ($0.id, $0.name, $0.algorithm, $0.material)
        }
    }
}

extension NewInstance: ListedFields {
    static var fieldList: some FieldListing<NewInstance> {
        FieldList(NewInstance.init(project:app:platform:token:keyDigest:proof:channel:bridging:)) {
            (
                $0.project, $0.app, $0.platform, $0.token, $0.keyDigest, $0.proof, $0.channel,
                $0.bridging
            )
        }
    }
}

extension RegistrationProof: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .none
        case 2: self = .trusted
        case 3: self = .key(id: try reader.take(), digest: try reader.take())
        case 4:
            self = .ticket(
                VerifiedTicket(
                    keyID: try reader.take(), digest: try reader.take(),
                    expires: try reader.take(), topics: try reader.take()))
        default: throw .unknown(field: "registration proof", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        switch self {
        case .none: writer.put(byte: 1)
        case .trusted: writer.put(byte: 2)
        case .key(let id, let digest):
            writer.put(byte: 3)
            writer.put(id)
            writer.put(digest)
        case .ticket(let ticket):
            writer.put(byte: 4)
            writer.put(ticket.keyID)
            writer.put(ticket.digest)
            writer.put(ticket.expires)
            writer.put(ticket.topics)
        }
    }
}

extension RegistryChange: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .policies(registration: try reader.take(), topics: try reader.take())
        case 2: self = .limits(try reader.take())
        case 3: self = .createRegistrationKey(try reader.take())
        case 4: self = .revokeRegistrationKey(id: try reader.take())
        case 5: self = .createTicketKey(try reader.take())
        case 6: self = .revokeTicketKey(id: try reader.take())
        case 7: self = .createApp(name: try reader.take(), platform: try reader.take())
        case 8: self = .deleteApp(name: try reader.take(), platform: try reader.take())
        default: throw .unknown(field: "registry change", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        switch self {
        case .policies(let registration, let topics):
            writer.put(byte: 1)
            writer.put(registration)
            writer.put(topics)
        case .limits(let changes):
            writer.put(byte: 2)
            writer.put(changes)
        case .createRegistrationKey(let key):
            writer.put(byte: 3)
            writer.put(key)
        case .revokeRegistrationKey(let id):
            writer.put(byte: 4)
            writer.put(id)
        case .createTicketKey(let key):
            writer.put(byte: 5)
            writer.put(key)
        case .revokeTicketKey(let id):
            writer.put(byte: 6)
            writer.put(id)
        case .createApp(let name, let platform):
            writer.put(byte: 7)
            writer.put(name)
            writer.put(platform)
        case .deleteApp(let name, let platform):
            writer.put(byte: 8)
            writer.put(name)
            writer.put(platform)
        }
    }
}

// MARK: Topics

extension TopicChangeResult.Failure: ListedFields {
    static var fieldList: some FieldListing<TopicChangeResult.Failure> {
        FieldList(TopicChangeResult.Failure.init(index:word:)) { ($0.index, $0.word) }
    }
}

extension TopicChangeResult: ListedFields {
    static var fieldList: some FieldListing<TopicChangeResult> {
        FieldList(TopicChangeResult.init(successCount:failures:)) { ($0.successCount, $0.failures) }
    }
}

extension TopicChangeProgress: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init()
        doneCount = try reader.take()
        result = try reader.take()
        order = try reader.take()
        stepMax = try reader.take()
    }

    func write(to writer: inout FieldWriter) {
        writer.put(doneCount)
        writer.put(result)
        writer.put(order)
        writer.put(stepMax)
    }
}
