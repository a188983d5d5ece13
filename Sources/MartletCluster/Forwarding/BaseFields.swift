// SPDX-License-Identifier: Apache-2.0
//
// The fields of MartletBase and MartletRows: numbers, tokens, digests, records. Rests on FieldCoding.

import MartletBase
import MartletRows

extension ProjectNumber: FieldCoding {}
extension Ordinal: FieldCoding {}
extension TopicNumber: FieldCoding {}
extension AppNumber: FieldCoding {}
extension MessageSequence: FieldCoding {}
extension Instant: FieldCoding {}
extension ErrorWord: FieldCoding {}
extension Platform: FieldCoding {}
extension PlatformSet: FieldCoding {}
extension MessagePriority: FieldCoding {}
extension TopicOperation: FieldCoding {}
extension GroupOperation: FieldCoding {}
extension ReceiptKind: FieldCoding {}
extension OverloadPolicy: FieldCoding {}
extension RegistrationPolicy: FieldCoding {}
extension TicketAlgorithm: FieldCoding {}
extension ProjectLimit: FieldCoding {}

// MARK: Random bytes

extension Token: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(bytes: try reader.take(fixed: Limits.tokenRandomBytes))
    }

    func write(to writer: inout FieldWriter) { writer.put(fixed: bytes) }
}

extension GroupKey: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(bytes: try reader.take(fixed: Limits.tokenRandomBytes))
    }

    func write(to writer: inout FieldWriter) { writer.put(fixed: bytes) }
}

extension SecretDigest: FieldCoding {
    /// Bytes of a SHA-256.
    private static let byteCount = 32

    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(bytes: try reader.take(fixed: Self.byteCount))
    }

    func write(to writer: inout FieldWriter) { writer.put(fixed: bytes) }
}

extension Holder: FieldCoding {
    /// Bytes of a holder: the start of a digest.
    private static let byteCount = 8

    init(from reader: inout FieldReader) throws(ForwardingError) {
        let bytes = try reader.take(fixed: Self.byteCount)
        self.init(word: bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) })
    }

    func write(to writer: inout FieldWriter) {
        writer.put(
            fixed: (0..<Self.byteCount).map {
                UInt8(truncatingIfNeeded: word >> (8 * UInt64($0)))
            })
    }
}

extension AgentChannel: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            agent: try reader.take(), channel: try reader.take(fixed: AgentChannel.channelBytes))
    }

    func write(to writer: inout FieldWriter) {
        writer.put(agent)
        writer.put(fixed: channel)
    }
}

// MARK: Rules and limits

extension GroupName: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let start = reader.offset
        let text = try reader.takeText()
        do throws(MartletError) { try self.init(validating: text) } catch {
            throw .malformed(field: "group name", offset: start)
        }
    }

    func write(to writer: inout FieldWriter) { writer.put(text: text) }
}

extension TopicPolicy: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .all
        case 2: self = .noTopics
        case 3: self = .prefixes(try reader.takeList())
        default: throw .unknown(field: "topic policy", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        switch self {
        case .all: writer.put(byte: 1)
        case .noTopics: writer.put(byte: 2)
        case .prefixes(let prefixes):
            writer.put(byte: 3)
            writer.put(list: prefixes)
        }
    }
}

extension ProjectLimitChange: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(try reader.take(), to: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(limit)
        writer.put(value)
    }
}

extension ProjectLimits: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init()
        for limit in ProjectLimit.allCases {
            let start = reader.offset
            guard let value = try reader.take(Int?.self) else { continue }
            guard limit.bounds.contains(value), value < Int(UInt32.max) else {
                throw .malformed(field: limit.name, offset: start)
            }
            self[limit] = value
        }
    }

    func write(to writer: inout FieldWriter) {
        for limit in ProjectLimit.allCases { writer.put(self[limit]) }
    }
}

// MARK: Messages and mailboxes

extension Lifespan: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .seconds(try reader.take())
        case 2: self = .until(try reader.take())
        case 3: self = .longest
        default: throw .unknown(field: "lifespan", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        switch self {
        case .seconds(let seconds):
            writer.put(byte: 1)
            writer.put(seconds)
        case .until(let instant):
            writer.put(byte: 2)
            writer.put(instant)
        case .longest: writer.put(byte: 3)
        }
    }
}

extension CollapseKey: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let kind = try reader.takeByte()
        switch kind {
        case 1: self = .none
        case 2: self = .app
        case 3: self = .named(try reader.take())
        case 4: self = .opaque(topic: try reader.take())
        default: throw .unknown(field: "collapse key", number: UInt64(kind))
        }
    }

    func write(to writer: inout FieldWriter) {
        switch self {
        case .none: writer.put(byte: 1)
        case .app: writer.put(byte: 2)
        case .named(let key):
            writer.put(byte: 3)
            writer.put(key)
        case .opaque(let topic):
            writer.put(byte: 4)
            writer.put(topic)
        }
    }
}

extension MessageSize: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(payloadBytes: try reader.take(), blockBytes: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(payloadBytes)
        writer.put(blockBytes)
    }
}

extension OutgoingVariant: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            platforms: try reader.take(), lifespan: try reader.take(),
            priority: try reader.take(), collapse: try reader.take(),
            restrictedPackageName: try reader.take(), body: try reader.takeBytes(),
            size: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(platforms)
        writer.put(lifespan)
        writer.put(priority)
        writer.put(collapse)
        writer.put(restrictedPackageName)
        writer.put(bytes: body)
        writer.put(size)
    }
}

extension SendAttempt: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(place: try reader.take(), number: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(place)
        writer.put(number)
    }
}

extension LaneMarks: FieldCoding {
    /// Marks of equal positions, as of most devices, are written once.
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let start = reader.offset
        let isEven = try reader.take(Bool.self)
        self.init(try reader.take())
        guard !isEven else { return }
        for lane in Lane.all.dropFirst() { self[lane] = try reader.take() }
        guard !self.isEven else { throw .malformed(field: "marks", offset: start) }
    }

    func write(to writer: inout FieldWriter) {
        writer.put(isEven)
        for lane in isEven ? [Lane.all[0]] : Lane.all { writer.put(self[lane]) }
    }
}

extension Absence: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let from = try reader.take(MessageSequence.self)
        let through = try reader.take(MessageSequence.self)
        if let heldFrom = try reader.take(MessageSequence?.self) {
            self = .dozing(from: from, through: through, heldFrom: heldFrom)
        } else {
            self = .away(from: from, through: through)
        }
    }

    func write(to writer: inout FieldWriter) {
        writer.put(from)
        writer.put(through)
        writer.put(heldFrom)
    }
}

extension ConnectionStart: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            number: try reader.take(), position: try reader.take(), held: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(number)
        writer.put(position)
        writer.put(held)
    }
}

extension ReportCounts: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init()
        for event in ReportEvent.allCases { self[event] = try reader.take() }
    }

    func write(to writer: inout FieldWriter) {
        for event in ReportEvent.allCases { writer.put(self[event]) }
    }
}

// MARK: Records

extension Project: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            number: try reader.take(), id: try reader.take(), senderID: try reader.take(),
            limits: try reader.take(), weight: try reader.take(), overload: try reader.take(),
            lastSequence: try reader.take(), instanceCount: try reader.take(),
            topicCount: try reader.take(), reportCount: try reader.take(),
            reportsFrom: try reader.take(), nextOrdinal: try reader.take(),
            nextTopic: try reader.take(), nextApp: try reader.take(),
            appCount: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(number)
        writer.put(id)
        writer.put(senderID)
        writer.put(limits)
        writer.put(weight)
        writer.put(overload)
        writer.put(lastSequence)
        writer.put(instanceCount)
        writer.put(topicCount)
        writer.put(reportCount)
        writer.put(reportsFrom)
        writer.put(nextOrdinal)
        writer.put(nextTopic)
        writer.put(nextApp)
        writer.put(appCount)
    }
}

extension ServerKey: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            id: try reader.take(), project: try reader.take(), name: try reader.take(),
            digest: try reader.take(), created: try reader.take(), isRevoked: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(id)
        writer.put(project)
        writer.put(name)
        writer.put(digest)
        writer.put(created)
        writer.put(isRevoked)
    }
}

extension Instance: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            project: try reader.take(), ordinal: try reader.take(), token: try reader.take(),
            formerTokens: try reader.take(), keyDigest: try reader.take(),
            app: try reader.take(), platform: try reader.take(), registered: try reader.take(),
            registeredBehind: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(project)
        writer.put(ordinal)
        writer.put(token)
        writer.put(formerTokens)
        writer.put(keyDigest)
        writer.put(app)
        writer.put(platform)
        writer.put(registered)
        writer.put(registeredBehind)
    }
}

extension MartletError: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self.init(
            try reader.take(), try reader.take(), field: try reader.take(),
            byteOffset: try reader.take(), retryDelayMilliseconds: try reader.take())
    }

    func write(to writer: inout FieldWriter) {
        writer.put(word)
        writer.put(message)
        writer.put(field)
        writer.put(byteOffset)
        writer.put(retryDelayMilliseconds)
    }
}
