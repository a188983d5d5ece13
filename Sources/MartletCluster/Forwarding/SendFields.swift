// SPDX-License-Identifier: Apache-2.0
//
// The fields of messages on their way to the engine, and of the reports of loops about devices. Acknowledgements are
// the most frequent commands, so their optional fields share a byte of flags. Rests on BaseFields.

import MartletBase
import MartletEngine
import MartletRows

extension TargetKind: FieldCoding {}

extension SendCommand.Target: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        switch try reader.take(TargetKind.self) {
        case .token: self = .token(try reader.take())
        case .topic: self = .topic(try reader.take())
        case .condition: self = .condition(try reader.take())
        case .group: self = .group(try reader.take())
        case .several: self = .several(try reader.takeNested())
        }
    }

    func write(to writer: inout FieldWriter) {
        func put(_ kind: TargetKind, _ text: String) {
            writer.put(kind)
            writer.put(text)
        }
        switch self {
        case .token(let token): put(.token, token)
        case .topic(let topic): put(.topic, topic)
        case .condition(let condition): put(.condition, condition)
        case .group(let key): put(.group, key)
        case .several(let targets):
            writer.put(TargetKind.several)
            writer.put(nested: targets)
        }
    }
}

extension SendCommand: FieldCoding {
    /// Flags of a message, beside those of the options.
    private enum Flag {
        static let validateOnly: UInt8 = 1 << 0
        static let asksAllowance: UInt8 = 1 << 1
        static let all = validateOnly | asksAllowance | MessageOptions.Bits.forwarded.all
    }

    init(from reader: inout FieldReader) throws(ForwardingError) {
        let flags = try reader.takeFlags("message flags", known: Flag.all)
        self.init(
            target: try reader.take(), variants: try reader.takeList(),
            validateOnly: flags & Flag.validateOnly != 0,
            options: MessageOptions(flags, in: .forwarded),
            idempotencyKey: try reader.take(), sendAt: try reader.take(),
            notReceived: try reader.take())
        asksAllowance = flags & Flag.asksAllowance != 0
        attempt = try reader.take()
    }

    func write(to writer: inout FieldWriter) {
        let (
            target, variants, validateOnly, asksAllowance, options, key, attempt, sendAt,
            notReceived
        ) = fields
        writer.put(
            byte: (validateOnly ? Flag.validateOnly : 0)
                | (asksAllowance ? Flag.asksAllowance : 0)
                | options.flags(in: .forwarded))
        writer.put(target)
        writer.put(list: variants)
        writer.put(key)
        writer.put(sendAt)
        writer.put(notReceived)
        writer.put(attempt)
    }
}

extension UpstreamCommand: ListedFields {
    static var fieldList: some FieldListing<UpstreamCommand> {
        FieldList(
            UpstreamCommand.init(
                project:ordinal:holder:target:messageID:timeToLiveSeconds:body:size:)
        ) {
            (
                $0.project, $0.ordinal, $0.holder, $0.target, $0.messageID, $0.timeToLiveSeconds,
                $0.body, $0.size
            )
        }
    }
}

extension UpstreamCommand.Target: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .project
        case 2: self = .group(try reader.take())
        default: throw .unknown(field: "upstream target", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        switch self {
        case .project: writer.put(byte: 1)
        case .group(let key):
            writer.put(byte: 2)
            writer.put(key)
        }
    }
}

// MARK: Reports of loops

extension Acknowledgement: FieldCoding {
    /// Flags of the fields that an acknowledgement has.
    private enum Flag {
        static let holder: UInt8 = 1 << 0
        static let departure: UInt8 = 1 << 1
        static let skipped: UInt8 = 1 << 2
        static let arrival: UInt8 = 1 << 3
        static let handedOver: UInt8 = 1 << 4
        static let all = holder | departure | skipped | arrival | handedOver
    }

    init(from reader: inout FieldReader) throws(ForwardingError) {
        let flags = try reader.takeFlags("acknowledgement flags", known: Flag.all)
        self.init(
            project: try reader.take(), ordinal: try reader.take(), through: try reader.take(),
            single: try reader.takeList())
        if flags & Flag.holder != 0 { holder = try reader.take(Holder.self) }
        if flags & Flag.departure != 0 { departure = try reader.take(Departure.self) }
        if flags & Flag.skipped != 0 { skipped = try reader.take(Skipped.self) }
        if flags & Flag.arrival != 0 { arrival = try reader.take(MessageSequence.self) }
        isHandedOver = flags & Flag.handedOver != 0
    }

    func write(to writer: inout FieldWriter) {
        writer.put(
            byte: (holder != nil ? Flag.holder : 0) | (departure != nil ? Flag.departure : 0)
                | (skipped != nil ? Flag.skipped : 0) | (arrival != nil ? Flag.arrival : 0)
                | (isHandedOver ? Flag.handedOver : 0))
        writer.put(project)
        writer.put(ordinal)
        writer.put(through)
        writer.put(list: single)
        if let holder { writer.put(holder) }
        if let departure { writer.put(departure) }
        if let skipped { writer.put(skipped) }
        if let arrival { writer.put(arrival) }
    }
}

extension Acknowledgement.Departure: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            connectionNumber: try reader.take(), position: try reader.take(),
            throttleFull: try reader.take(), seen: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(connectionNumber)
        writer.put(position)
        writer.put(throttleFull)
        writer.put(seen)
    }
}

extension Acknowledgement.Skipped: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(through: try reader.take(), at: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(through)
        writer.put(at)
    }
}

extension SentCount: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            project: try reader.take(), sequence: try reader.take(), app: try reader.take(),
            count: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(project)
        writer.put(sequence)
        writer.put(app)
        writer.put(count)
    }
}

extension DayCount: ListedFields {
    static var fieldList: some FieldListing<DayCount> {
        FieldList(DayCount.init(project:day:app:counts:)) {
            ($0.project, $0.day, $0.app, $0.counts)
        }
    }
}
