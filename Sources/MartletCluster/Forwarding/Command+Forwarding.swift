// SPDX-License-Identifier: Apache-2.0
//
// Every command as bytes, for the way from a node that does not write to the active node. Rests on the fields of the
// other files.

import MartletBase
package import MartletEngine
import MartletRows

/// The numbers of commands in bytes. A number is part of the format and is never used again.
package enum CommandKind: UInt8, CaseIterable, Sendable, FieldCoding {
    case createProject = 1
    case changeProject = 2
    case createKey = 3
    case revokeKey = 4
    case createServiceAccount = 5
    case revokeServiceAccount = 6
    case changeRegistry = 7
    case register = 8
    case unregister = 9
    case unregisterToken = 10
    case changeTopics = 11
    case changeTopic = 12
    case createGroup = 13
    case changeGroup = 14
    case send = 15
    case acknowledge = 16
    case connected = 17
    case rotate = 18
    case cancel = 19
    case receipt = 20
    case takeReceipts = 21
    case upstream = 22
    case takeUpstream = 23
    case touch = 24
    case count = 25
    case changeBridge = 26
}

extension Command {
    /// The command as bytes of the current format.
    /// - Throws: `tooLong` if the command is beyond the bounds of `ForwardingFormat`.
    package func forwarded() throws(ForwardingError) -> [UInt8] {
        try FieldWriter.bytes(of: self, "the command")
    }

    /// Reads a command.
    /// - Throws: `ForwardingError` for bytes in any form but that of `forwarded`.
    package init(forwarded bytes: [UInt8]) throws(ForwardingError) {
        self = try FieldReader.value(of: bytes, "the command")
    }
}

extension Command: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        switch try reader.take(CommandKind.self) {
        case .createProject:
            self = .createProject(
                id: try reader.take(), senderID: try reader.take(),
                conditionTopicsMax: try reader.take(), registration: try reader.take(),
                key: try reader.take())
        case .changeProject:
            self = .changeProject(
                id: try reader.take(), weight: try reader.take(), overload: try reader.take(),
                conditionTopicsMax: try reader.take())
        case .createKey: self = .createKey(project: try reader.take(), key: try reader.take())
        case .revokeKey: self = .revokeKey(project: try reader.take(), keyID: try reader.take())
        case .createServiceAccount:
            self = .createServiceAccount(project: try reader.take(), key: try reader.take())
        case .revokeServiceAccount:
            self = .revokeServiceAccount(project: try reader.take(), keyID: try reader.take())
        case .changeRegistry:
            self = .changeRegistry(project: try reader.take(), try reader.take())
        case .register: self = .register(try reader.take())
        case .unregister:
            self = .unregister(
                project: try reader.take(), ordinal: try reader.take(), holder: try reader.take())
        case .unregisterToken:
            self = .unregisterToken(project: try reader.take(), token: try reader.take())
        case .changeTopics:
            self = .changeTopics(
                project: try reader.take(), ordinal: try reader.take(),
                change: try reader.take(), topics: try reader.take(), holder: try reader.take())
        case .changeTopic:
            self = .changeTopic(
                project: try reader.take(), topic: try reader.take(), change: try reader.take(),
                tokens: try reader.take(), progress: try reader.take())
        case .createGroup:
            self = .createGroup(
                project: try reader.take(), name: try reader.take(), key: try reader.take(),
                tokens: try reader.take())
        case .changeGroup:
            self = .changeGroup(
                project: try reader.take(), name: try reader.take(), key: try reader.take(),
                change: try reader.take(), tokens: try reader.take())
        case .send: self = .send(project: try reader.take(), message: try reader.take())
        case .acknowledge: self = .acknowledge(try reader.take(), sent: try reader.take())
        case .connected:
            self = .connected(
                project: try reader.take(), ordinal: try reader.take(),
                holder: try reader.take(), connection: try reader.take())
        case .rotate:
            self = .rotate(
                project: try reader.take(), ordinal: try reader.take(),
                holder: try reader.take(), token: try reader.take())
        case .cancel: self = .cancel(project: try reader.take(), number: try reader.take())
        case .receipt:
            self = .receipt(
                project: try reader.take(), ordinal: try reader.take(),
                holder: try reader.take(), kind: try reader.take(), streamID: try reader.take())
        case .takeReceipts:
            self = .takeReceipts(project: try reader.take(), through: try reader.take())
        case .upstream: self = .upstream(try reader.take())
        case .takeUpstream:
            self = .takeUpstream(project: try reader.take(), numbers: try reader.take())
        case .touch: self = .touch
        case .count: self = .count(try reader.take())
        case .changeBridge: self = .changeBridge(try reader.take())
        }
    }

    func write(to writer: inout FieldWriter) {
        func put<each Field: FieldCoding>(_ kind: CommandKind, _ fields: repeat each Field) {
            writer.put(kind)
            for field in repeat each fields { writer.put(field) }
        }
        switch self {
        case .createProject(let id, let senderID, let conditionTopicsMax, let registration, let key):
            put(.createProject, id, senderID, conditionTopicsMax, registration, key)
        case .changeProject(let id, let weight, let overload, let conditionTopicsMax):
            put(.changeProject, id, weight, overload, conditionTopicsMax)
        case .createKey(let project, let key): put(.createKey, project, key)
        case .revokeKey(let project, let keyID): put(.revokeKey, project, keyID)
        case .createServiceAccount(let project, let key):
            put(.createServiceAccount, project, key)
        case .revokeServiceAccount(let project, let keyID):
            put(.revokeServiceAccount, project, keyID)
        case .changeRegistry(let project, let change): put(.changeRegistry, project, change)
        case .register(let instance): put(.register, instance)
        case .unregister(let project, let ordinal, let holder):
            put(.unregister, project, ordinal, holder)
        case .unregisterToken(let project, let token): put(.unregisterToken, project, token)
        case .changeTopics(let project, let ordinal, let change, let topics, let holder):
            put(.changeTopics, project, ordinal, change, topics, holder)
        case .changeTopic(let project, let topic, let change, let tokens, let progress):
            put(.changeTopic, project, topic, change, tokens, progress)
        case .createGroup(let project, let name, let key, let tokens):
            put(.createGroup, project, name, key, tokens)
        case .changeGroup(let project, let name, let key, let change, let tokens):
            put(.changeGroup, project, name, key, change, tokens)
        case .send(let project, let message): put(.send, project, message)
        case .acknowledge(let acknowledgements, let sent):
            put(.acknowledge, acknowledgements, sent)
        case .connected(let project, let ordinal, let holder, let connection):
            put(.connected, project, ordinal, holder, connection)
        case .rotate(let project, let ordinal, let holder, let token):
            put(.rotate, project, ordinal, holder, token)
        case .cancel(let project, let number): put(.cancel, project, number)
        case .receipt(let project, let ordinal, let holder, let kind, let streamID):
            put(.receipt, project, ordinal, holder, kind, streamID)
        case .takeReceipts(let project, let through): put(.takeReceipts, project, through)
        case .upstream(let message): put(.upstream, message)
        case .takeUpstream(let project, let numbers): put(.takeUpstream, project, numbers)
        case .touch: put(.touch)
        case .count(let days): put(.count, days)
        case .changeBridge(let change): put(.changeBridge, change)
        }
    }
}
