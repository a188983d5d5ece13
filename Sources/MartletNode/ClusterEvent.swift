// SPDX-License-Identifier: Apache-2.0
//
// The events of a log row: the news that every node tells its loops once the row is in its store, and what nodes learn about
// each other (OPS-7). Rests on News and the records.
//
//   events   u32 count ‖ count × (u8 kind ‖ what the kind adds)

import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import MartletThreads

/// An event of a row.
enum ClusterEvent: Sendable {
    /// An epoch's first event: the row's node is active.
    case tookOver(node: String)
    /// The run of a node's process began.
    case runBegan(LivingRunsRow.Run)
    /// A node's run has ended, so its connections are lost.
    case runEnded(UInt32)
    case news(News)
    /// Where a command's answer goes among the events: a loop must hear of a registration before it hears of messages that
    /// were accepted later.
    case answered(run: UInt32, number: UInt64)

    private enum Kind: UInt8 {
        case tookOver = 1
        case runBegan
        case runEnded
        case fanout
        case weight
        case disconnect
        case cancel
        case receipts
        case revoked
        case connected
        case answered
    }
}

extension ClusterEvent {
    var fanout: Fanout? { if case .news(.fanout(let fanout)) = self { fanout } else { nil } }

    static func bytes(of events: [ClusterEvent]) -> [UInt8] {
        guard !events.isEmpty else { return [] }
        var writer = RecordWriter()
        writer.append(UInt32(events.count))
        for event in events { event.write(to: &writer) }
        return writer.bytes
    }

    /// - Throws: `StorageError` if the bytes aren't events.
    static func events(_ bytes: [UInt8]) throws(StorageError) -> [ClusterEvent] {
        guard !bytes.isEmpty else { return [] }
        return try bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
            var reader = RecordReader(UnsafeRawBufferPointer(bytes), of: .meta)
            let count = try reader.read(UInt32.self)
            var events: [ClusterEvent] = []
            for _ in 0..<count { events.append(try ClusterEvent(from: &reader)) }
            return events
        }
    }

    private func write(to writer: inout RecordWriter) {
        func put(_ kind: Kind) { writer.append(kind.rawValue) }
        switch self {
        case .tookOver(let node):
            put(.tookOver)
            writer.append(text: node)
        case .runBegan(let run):
            put(.runBegan)
            writer.append(run.number)
            writer.append(run.process)
            writer.append(text: run.node)
        case .runEnded(let run):
            put(.runEnded)
            writer.append(run)
        case .news(.fanout(let fanout)):
            put(.fanout)
            fanout.write(to: &writer)
        case .news(.weight(let project, let weight)):
            put(.weight)
            writer.append(project.rawValue)
            writer.append(UInt32(weight))
        case .news(.disconnect(let project, let ordinal, let holder)):
            put(.disconnect)
            writer.append(project.rawValue)
            writer.append(ordinal.rawValue)
            writer.append(holder == nil ? 0 : 1 as UInt8)
            writer.append(holder?.word ?? 0)
        case .news(.cancel(let project, let sequence)):
            put(.cancel)
            writer.append(project.rawValue)
            writer.append(sequence.rawValue)
        case .news(.receipts(let project)):
            put(.receipts)
            writer.append(project.rawValue)
        case .news(.revoked(let keyID)):
            put(.revoked)
            writer.append(text: keyID)
        case .news(.connected(let project, let ordinal, let number)):
            put(.connected)
            writer.append(project.rawValue)
            writer.append(ordinal.rawValue)
            writer.append(number)
        case .answered(let run, let number):
            put(.answered)
            writer.append(run)
            writer.append(number)
        }
    }

    private init(from reader: inout RecordReader) throws(StorageError) {
        guard let kind = Kind(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        func project() throws(StorageError) -> ProjectNumber {
            ProjectNumber(try reader.read(UInt32.self))
        }
        func ordinal() throws(StorageError) -> Ordinal { Ordinal(try reader.read(UInt32.self)) }
        switch kind {
        case .tookOver: self = .tookOver(node: try reader.text())
        case .runBegan:
            self = .runBegan(
                LivingRunsRow.Run(
                    number: try reader.read(UInt32.self), process: try reader.read(UInt64.self),
                    node: try reader.text()))
        case .runEnded: self = .runEnded(try reader.read(UInt32.self))
        case .fanout: self = .news(.fanout(try Fanout(from: &reader)))
        case .weight: self = .news(.weight(try project(), Int(try reader.read(UInt32.self))))
        case .disconnect:
            let (project, ordinal) = (try project(), try ordinal())
            let hasHolder = try reader.read(UInt8.self) != 0
            let word = try reader.read(UInt64.self)
            self = .news(.disconnect(project, ordinal, hasHolder ? Holder(word: word) : nil))
        case .cancel:
            self = .news(.cancel(try project(), MessageSequence(try reader.read(UInt64.self))))
        case .receipts: self = .news(.receipts(try project()))
        case .revoked: self = .news(.revoked(keyID: try reader.text()))
        case .connected:
            self = .news(
                .connected(
                    try project(), try ordinal(), connectionNumber: try reader.read(UInt64.self)))
        case .answered:
            self = .answered(
                run: try reader.read(UInt32.self), number: try reader.read(UInt64.self))
        }
    }
}

// MARK: Fanouts

extension Fanout {
    /// Flags beside those of the options.
    private enum Flag {
        static let isCollapsible: UInt8 = 1
        static let isOfMany: UInt8 = 4
    }

    fileprivate func write(to writer: inout RecordWriter) {
        writer.append(project.rawValue)
        writer.append(position.rawValue)
        writer.append(UInt32(weight))
        writer.append(header.sequence.rawValue)
        writer.append(header.number)
        writer.append(header.accepted.rawValue)
        writer.append(header.expires.rawValue)
        writer.append(header.kind.rawValue)
        writer.append(header.priority.rawValue)
        var flags = header.options.flags(in: .event)
        if header.isCollapsible { flags |= Flag.isCollapsible }
        if case .many = recipients { flags |= Flag.isOfMany }
        writer.append(flags)
        writer.append(text: header.from)
        writer.append(bytes: body)
        switch recipients {
        case .one(let ordinal): writer.append(ordinal.rawValue)
        case .many(let set): set.withBytes { writer.append(bytes: $0) }
        }
    }

    /// Reads another node's fanout, which reports no progress.
    fileprivate convenience init(from reader: inout RecordReader) throws(StorageError) {
        let project = ProjectNumber(try reader.read(UInt32.self))
        let position = MessageSequence(try reader.read(UInt64.self))
        let weight = Int(try reader.read(UInt32.self))
        let sequence = MessageSequence(try reader.read(UInt64.self))
        let number = try reader.read(UInt64.self)
        let accepted = Instant(rawValue: try reader.read(Int64.self))
        let expires = Instant(rawValue: try reader.read(Int64.self))
        guard let kind = TargetKind(rawValue: try reader.read(UInt8.self)),
            let priority = MessagePriority(rawValue: try reader.read(UInt8.self))
        else { throw reader.damaged() }
        let flags = try reader.read(UInt8.self)
        let header = MessageHeader(
            sequence: sequence, number: number, accepted: accepted, expires: expires, kind: kind,
            priority: priority, isCollapsible: flags & Flag.isCollapsible != 0,
            options: MessageOptions(flags, in: .event), from: try reader.text())
        let body = Array(try reader.countedBytes())
        let recipients: Recipients
        if flags & Flag.isOfMany != 0 {
            let blob = try reader.countedBytes()
            guard let set = RecipientSet(copying: blob) else { throw reader.damaged() }
            recipients = .many(set)
        } else {
            recipients = .one(Ordinal(try reader.read(UInt32.self)))
        }
        self.init(
            project: project, header: header, body: body, recipients: recipients,
            position: position, weight: weight)
    }
}

// MARK: Outcomes

/// A forwarded command's outcome.
struct LoggedOutcome: Sendable {
    var run: UInt32
    /// The number that the node gave the command.
    var number: UInt64
    /// The outcome, as MartletCluster writes it.
    var bytes: [UInt8]

    static func bytes(of outcomes: [LoggedOutcome]) -> [UInt8] {
        var writer = RecordWriter()
        for outcome in outcomes {
            writer.append(outcome.run)
            writer.append(outcome.number)
            writer.append(bytes: outcome.bytes)
        }
        return writer.bytes
    }

    /// - Throws: `StorageError` if the bytes aren't outcomes.
    static func outcomes(_ bytes: [UInt8]) throws(StorageError) -> [LoggedOutcome] {
        try bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
            var reader = RecordReader(UnsafeRawBufferPointer(bytes), of: .meta)
            var outcomes: [LoggedOutcome] = []
            while !reader.isAtEnd {
                outcomes.append(
                    LoggedOutcome(
                        run: try reader.read(UInt32.self), number: try reader.read(UInt64.self),
                        bytes: Array(try reader.countedBytes())))
            }
            return outcomes
        }
    }
}
