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

extension ProjectLimitChange: ListedFields {
    static var fieldList: some FieldListing<ProjectLimitChange> {
        FieldList(ProjectLimitChange.init(_:to:)) { ($0.limit, $0.value) }
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
        let (platforms, lifespan, priority, collapse, name, body, size) = fields
        writer.put(platforms)
        writer.put(lifespan)
        writer.put(priority)
        writer.put(collapse)
        writer.put(name)
        writer.put(bytes: body)
        writer.put(size)
    }
}

extension SendAttempt: ListedFields {
    static var fieldList: some FieldListing<SendAttempt> {
        FieldList(SendAttempt.init(place:number:)) { ($0.place, $0.number) }
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

extension ConnectionStart: ListedFields {
    static var fieldList: some FieldListing<ConnectionStart> {
        FieldList(ConnectionStart.init(number:position:held:)) { ($0.number, $0.position, $0.held) }
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

extension Project: ListedFields {
    static var fieldList: some FieldListing<Project> {
        FieldList(
            Project.init(
                number:id:senderID:limits:weight:overload:lastSequence:instanceCount:topicCount:
                reportCount:reportsFrom:nextOrdinal:nextTopic:nextApp:appCount:)
        ) {
            (
                $0.number, $0.id, $0.senderID, $0.limits, $0.weight, $0.overload, $0.lastSequence,
                $0.instanceCount, $0.topicCount, $0.reportCount, $0.reportsFrom, $0.nextOrdinal,
                $0.nextTopic, $0.nextApp, $0.appCount
            )
        }
    }
}

extension ServerKey: ListedFields {
    static var fieldList: some FieldListing<ServerKey> {
        FieldList(ServerKey.init(id:project:name:digest:created:isRevoked:)) {
            ($0.id, $0.project, $0.name, $0.digest, $0.created, $0.isRevoked)
        }
    }
}

extension Instance: ListedFields {
    static var fieldList: some FieldListing<Instance> {
        FieldList(
            Instance.init(
                project:ordinal:token:formerTokens:keyDigest:app:platform:registered:
                registeredBehind:)
        ) {
            (
                $0.project, $0.ordinal, $0.token, $0.formerTokens, $0.keyDigest, $0.app,
                $0.platform, $0.registered, $0.registeredBehind
            )
        }
    }
}

extension MartletError: ListedFields {
    static var fieldList: some FieldListing<MartletError> {
        FieldList(MartletError.init(_:_:field:byteOffset:retryDelayMilliseconds:)) {
            ($0.word, $0.message, $0.field, $0.byteOffset, $0.retryDelayMilliseconds)
        }
    }
}
