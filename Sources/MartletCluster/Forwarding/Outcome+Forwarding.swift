// SPDX-License-Identifier: Apache-2.0
//
// The outcomes of forwarded commands as bytes, for the way back to the node whose client waits. An outcome has two
// parts. The answer is for the client, and travels here. The work for loops and books (fanouts, and a device's
// now-or-never message) is the active node's, and the others learn of it from the events of rows. A node that took it from
// the answer too would do it twice, so an outcome that was read has no fanouts and no message of a device. Rests on the
// fields of the other files.

import MartletBase
package import MartletEngine
import MartletRows

/// The numbers of outcomes in bytes. A number is part of the format and is never used again.
package enum OutcomeKind: UInt8, CaseIterable, Sendable, FieldCoding {
    case project = 1
    case key = 2
    case done = 3
    case registered = 4
    case unregistered = 5
    case topicsChanged = 6
    case group = 7
    case accepted = 8
    case rotated = 9
    case cancelled = 10
    case receiptKept = 11
    case upstreamAccepted = 12
    case upstreamTaken = 13
    case refused = 14
    case bridgeChanged = 15
}

extension Outcome {
    /// The outcome as bytes of the current format. The active node forwards the outcome of a command's last part only:
    /// `unfinished` is no answer.
    /// - Throws: `tooLong` if the outcome is beyond the bounds of `ForwardingFormat`.
    package func forwarded() throws(ForwardingError) -> [UInt8] {
        try FieldWriter.bytes(of: self, "the outcome")
    }

    /// Reads an outcome.
    /// - Throws: `ForwardingError` for bytes in any form but that of `forwarded`.
    package init(forwarded bytes: [UInt8]) throws(ForwardingError) {
        self = try FieldReader.value(of: bytes, "the outcome")
    }
}

extension Outcome: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        switch try reader.take(OutcomeKind.self) {
        case .project: self = .project(try reader.take())
        case .key: self = .key(try reader.take())
        case .done: self = .done
        case .registered: self = .registered(try reader.take(), try reader.take())
        case .unregistered:
            self = .unregistered(
                project: try reader.take(), ordinal: try reader.take(), holder: try reader.take())
        case .topicsChanged: self = .topicsChanged(try reader.take())
        case .group: self = .group(try reader.take())
        case .accepted: self = .accepted(try reader.take(), fanouts: [])
        case .rotated: self = .rotated(try reader.take())
        case .cancelled:
            self = .cancelled(
                project: try reader.take(), number: try reader.take(),
                sequence: try reader.take())
        case .receiptKept: self = .receiptKept(try reader.take())
        case .upstreamAccepted: self = .upstreamAccepted(try reader.take(), fanouts: [])
        case .upstreamTaken: self = .upstreamTaken(try reader.take(), numbers: try reader.take())
        case .refused: self = .refused(try reader.take())
        case .bridgeChanged: self = .bridgeChanged(try reader.take())
        }
    }

    func write(to writer: inout FieldWriter) {
        func put<each Field: FieldCoding>(_ kind: OutcomeKind, _ fields: repeat each Field) {
            writer.put(kind)
            for field in repeat each fields { writer.put(field) }
        }
        switch self {
        case .project(let project): put(.project, project)
        case .key(let key): put(.key, key)
        case .done: put(.done)
        case .registered(let instance, let project): put(.registered, instance, project)
        case .unregistered(let project, let ordinal, let holder):
            put(.unregistered, project, ordinal, holder)
        case .topicsChanged(let result): put(.topicsChanged, result)
        case .group(let group): put(.group, group)
        case .accepted(let acceptance, _): put(.accepted, acceptance)
        case .rotated(let token): put(.rotated, token)
        case .cancelled(let project, let number, let sequence):
            put(.cancelled, project, number, sequence)
        case .receiptKept(let project): put(.receiptKept, project)
        case .upstreamAccepted(let acceptance, _): put(.upstreamAccepted, acceptance)
        case .upstreamTaken(let project, let numbers): put(.upstreamTaken, project, numbers)
        case .unfinished: invariant(false, "A command with parts left has no answer yet.")
        case .refused(let error): put(.refused, error)
        case .bridgeChanged(let news): put(.bridgeChanged, news)
        }
    }
}

// MARK: Parts of outcomes

extension GroupMembers: ListedFields {
    static var fieldList: some FieldListing<GroupMembers> {
        FieldList(GroupMembers.init(key:name:tokens:)) { ($0.key, $0.name, $0.tokens) }
    }
}

extension Acceptance: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            messageNumber: try reader.take(), recipientCount: try reader.take(),
            rateLimitedCount: try reader.take(), inactiveCount: try reader.take(),
            deferredPlace: try reader.take(), named: try reader.take())
        allowance = try reader.take()
    }

    func write(to writer: inout FieldWriter) {
        writer.put(messageNumber)
        writer.put(recipientCount)
        writer.put(rateLimitedCount)
        writer.put(inactiveCount)
        writer.put(deferredPlace)
        writer.put(named)
        writer.put(allowance)
    }
}

extension NamedResults: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .none
        case 2: self = .group(successCount: try reader.take(), failures: try reader.take())
        case 3: self = .tokens(successCount: try reader.take(), failures: try reader.take())
        default: throw .unknown(field: "named results", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        switch self {
        case .none: writer.put(byte: 1)
        case .group(let successCount, let failures):
            writer.put(byte: 2)
            writer.put(successCount)
            writer.put(failures)
        case .tokens(let successCount, let failures):
            writer.put(byte: 3)
            writer.put(successCount)
            writer.put(failures)
        }
    }
}

extension NamedResults.GroupFailure: ListedFields {
    static var fieldList: some FieldListing<NamedResults.GroupFailure> {
        FieldList(NamedResults.GroupFailure.init(token:word:)) { ($0.token, $0.word) }
    }
}

extension MessagesLeft: ListedFields {
    static var fieldList: some FieldListing<MessagesLeft> {
        FieldList(MessagesLeft.init(minute:hour:)) { ($0.minute, $0.hour) }
    }
}

extension DeviceAllowance: ListedFields {
    static var fieldList: some FieldListing<DeviceAllowance> {
        FieldList(DeviceAllowance.init(messages:upstream:)) { ($0.messages, $0.upstream) }
    }
}

extension UpstreamAcceptance: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            project: try reader.take(), number: try reader.take(),
            isForSenders: try reader.take(), passing: nil)
    }

    func write(to writer: inout FieldWriter) {
        writer.put(project)
        writer.put(number)
        writer.put(isForSenders)
    }
}
