// SPDX-License-Identifier: Apache-2.0
//
// The record of a stored message. The fields for reading a log come first, at fixed places. Text and bodies come
// last, so reading a log does not touch them. Rests on RecordBytes.
//
//   offset  size  what
//        0     8  i64 accepted
//        8     2  u16 recipients that have a row in the inbox; 0 for recipients in a blob
//       10     2  u16 recipients that had a row until they acknowledged the message
//       12     1  u8 kind of target; bit 7: the message is in the project's expiry line; bit 6: the message
//                 is for one instance, and this record is its report until `reports` has a row
//       13     1  u8 flags, see `Flags`
//       14     2  u16 bytes of `from`
//       16     *  variants: i64 expires ‖ u32 bytes of the body ‖ u8 platforms ‖ u8 traits (bits 0–1
//                 priority, bits 2–3 collapse key: none, app, named, opaque) ‖ u64 digest of a named key, or
//                 of an opaque message's topic (0: no topic)
//                 u64 number, if different from the sequence
//                 u32 ordinals of the recipients that have a row in the inbox
//                 from
//                 bodies, in the variants' order; none after they are dropped

import MartletCrypto
package import MartletBase

/// The record of a message, borrowed from its row.
package struct MessageRecord {
    /// Bits of a record. No `OptionSet`: its generic methods would be called unspecialised from the engine, with a look-up
    /// of witnesses for each record.
    package struct Flags {
        package var rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let none = Flags(rawValue: 0)

        /// Bits 0 and 1 count the variants. Bit 2 is of the options.
        package static let variantCountMask: UInt8 = 3
        package static let hasNumber = Flags(rawValue: 1 << 3)
        package static let hasBlob = Flags(rawValue: 1 << 4)
        /// The bodies are dropped, because no instance gets the message any more. The record stays while the message
        /// may matter for the fate of others.
        package static let isDropped = Flags(rawValue: 1 << 5)
        /// STO-2: the record stands for the recipients for whom the message was discarded.
        package static let isDiscarded = Flags(rawValue: 1 << 6)
        /// The expiry was handled. The record is a tombstone.
        package static let isExpired = Flags(rawValue: 1 << 7)

        package var variantCount: Int { Int(rawValue & Self.variantCountMask) }

        /// Whether all bits of `other` are set.
        package func contains(_ other: Flags) -> Bool {
            rawValue & other.rawValue == other.rawValue
        }

        package func union(_ other: Flags) -> Flags { Flags(rawValue: rawValue | other.rawValue) }

        package mutating func insert(_ other: Flags) { rawValue |= other.rawValue }
    }

    package enum Collapse: Hashable {
        case none
        case app
        case key(CollapseDigest)
        /// MSG-11: an opaque message, with the digest of its topic, if any.
        case opaque(CollapseDigest?)

        /// Whether the message counts against the collapse keys and the throttle (COL-3, COL-4) and not against the 100 stored
        /// messages (STO-1).
        package var isCollapsible: Bool {
            switch self {
            case .none, .opaque: false
            case .app, .key: true
            }
        }

        /// Whether a later message can replace the message (COL-1).
        package var isReplaceable: Bool {
            switch self {
            case .none, .opaque(nil): false
            case .app, .key, .opaque: true
            }
        }
    }

    package struct Variant {
        package var platforms: PlatformSet
        package var expires: Instant
        package var priority: MessagePriority
        package var collapse: Collapse
        /// The bytes of all bodies before the variant's body.
        package var bodyOffset: Int
        /// The bytes of the variant's body.
        package var bodyBytes: Int
    }

    package static let ownerCountOffset = 8
    private static let kindOffset = 12
    private static let inLineBit: UInt8 = 1 << 7
    private static let reportBit: UInt8 = 1 << 6
    package static let flagsOffset = 13
    package static let variantsOffset = 16
    private static let variantBytes = 14

    package let bytes: UnsafeRawBufferPointer
    package let accepted: Instant
    /// The number of recipients that have a row in the inbox.
    package let ownerCount: Int
    /// The number of recipients that had a row until they acknowledged the message.
    package let takerCount: Int
    package let flags: Flags
    /// The message is in the project's expiry line, and has no row of its own in `due`.
    package let isInLine: Bool
    package var options: MessageOptions { MessageOptions(flags.rawValue, in: .record) }
    /// REP-1: the record is the message's report as long as `reports` has no row of the message.
    package let hasReport: Bool
    private let kind: UInt8
    private let fromBytes: Int

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        self.bytes = bytes
        guard bytes.count >= Self.variantsOffset else { throw Self.damaged(bytes) }
        accepted = Instant(millisecondsSince1970: bytes.loadLittleEndian(Int64.self, at: 0))
        ownerCount = Int(bytes.loadLittleEndian(UInt16.self, at: Self.ownerCountOffset))
        takerCount = Int(bytes.loadLittleEndian(UInt16.self, at: Self.ownerCountOffset + 2))
        isInLine = bytes[Self.kindOffset] & Self.inLineBit != 0
        hasReport = bytes[Self.kindOffset] & Self.reportBit != 0
        kind = bytes[Self.kindOffset] & ~(Self.inLineBit | Self.reportBit)
        flags = Flags(rawValue: bytes[Self.flagsOffset])
        fromBytes = Int(bytes.loadLittleEndian(UInt16.self, at: 14))
    }

    package static func damaged(_ bytes: UnsafeRawBufferPointer) -> StorageError {
        RecordReader(bytes, of: .messages).damaged()
    }

    /// Calls `body` with each variant until `body` returns false.
    /// - Returns: the offset behind the variants, and the bytes of all bodies; nil after a stop.
    @inline(__always)
    private func forEachVariant(
        _ body: (Variant) -> Bool
    ) throws(StorageError) -> (end: Int, bodyBytes: Int)? {
        var at = Self.variantsOffset
        var bodyOffset = 0
        for _ in 0..<flags.variantCount {
            guard bytes.count >= at + Self.variantBytes else { throw Self.damaged(bytes) }
            let size = Int(bytes.loadLittleEndian(UInt32.self, at: at + 8))
            let traits = bytes[at + 13]
            guard let priority = MessagePriority(rawValue: traits & 3) else {
                throw Self.damaged(bytes)
            }
            var variant = Variant(
                platforms: PlatformSet(rawValue: bytes[at + 12]),
                expires: Instant(
                    millisecondsSince1970: bytes.loadLittleEndian(Int64.self, at: at)),
                priority: priority, collapse: .none, bodyOffset: bodyOffset, bodyBytes: size)
            at += Self.variantBytes
            switch traits >> 2 {
            case 0: break
            case 1: variant.collapse = .app
            case 2:
                guard bytes.count >= at + 8 else { throw Self.damaged(bytes) }
                variant.collapse = .key(
                    CollapseDigest(rawValue: bytes.loadLittleEndian(UInt64.self, at: at)))
                at += 8
            case 3:
                guard bytes.count >= at + 8 else { throw Self.damaged(bytes) }
                let digest = bytes.loadLittleEndian(UInt64.self, at: at)
                variant.collapse = .opaque(digest == 0 ? nil : CollapseDigest(rawValue: digest))
                at += 8
            default: throw Self.damaged(bytes)
            }
            bodyOffset += size
            if !body(variant) { return nil }
        }
        return (at, bodyOffset)
    }

    /// The variant for the instances of a platform; nil if they are not recipients.
    package func variant(on platform: Platform) throws(StorageError) -> Variant? {
        var found: Variant?
        _ = try forEachVariant { variant in
            guard variant.platforms.contains(platform) else { return true }
            found = variant
            return false
        }
        return found
    }

    package func variants() throws(StorageError) -> [Variant] {
        var all: [Variant] = []
        _ = try forEachVariant {
            all.append($0); return true
        }
        return all
    }

    /// When the last variant expires.
    package func expires() throws(StorageError) -> Instant {
        var last = Instant(millisecondsSince1970: .min)
        _ = try forEachVariant {
            last = max(last, $0.expires); return true
        }
        return last
    }

    /// The offset of the owners' ordinals, and the bytes of all bodies.
    private func places() throws(StorageError) -> (owners: Int, bodyBytes: Int) {
        guard let variants = try forEachVariant({ _ in true }) else { throw Self.damaged(bytes) }
        let owners = variants.end + (flags.contains(.hasNumber) ? 8 : 0)
        guard bytes.count >= owners + ownerCount * 4 + fromBytes else {
            throw Self.damaged(bytes)
        }
        return (owners, variants.bodyBytes)
    }

    /// The recipients that have a row in the inbox.
    package func owners() throws(StorageError) -> [Ordinal] {
        let owners = try places().owners
        return (0..<ownerCount).map {
            Ordinal(bytes.loadLittleEndian(UInt32.self, at: owners + $0 * 4))
        }
    }

    /// The number, the kind of target, the sender and all bodies. The size of the whole record is checked.
    package func rest(
        _ sequence: MessageSequence
    ) throws(StorageError) -> (
        number: UInt64, kind: TargetKind, from: String, bodies: UnsafeRawBufferPointer
    ) {
        let (owners, bodyBytes) = try places()
        var number = sequence.rawValue
        if flags.contains(.hasNumber) {
            number = bytes.loadLittleEndian(UInt64.self, at: owners - 8)
        }
        let at = owners + ownerCount * 4
        let expected = at + fromBytes + (flags.contains(.isDropped) ? 0 : bodyBytes)
        guard bytes.count == expected, let kind = TargetKind(rawValue: kind) else {
            throw Self.damaged(bytes)
        }
        let from = String(decoding: bytes[at..<(at + fromBytes)], as: UTF8.self)
        return (
            number, kind, from, UnsafeRawBufferPointer(rebasing: bytes[(at + fromBytes)...])
        )
    }

    /// The digest of the collapse key or topic, if the record has one variant and a later message can replace the
    /// message; 0 stands for the app's key.
    package static func onlyDigest(_ bytes: UnsafeRawBufferPointer) -> UInt64? {
        guard Flags(rawValue: bytes[flagsOffset]).variantCount == 1 else { return nil }
        switch bytes[variantsOffset + 13] >> 2 {
        case 1: return 0
        case 2:
            return bytes.loadLittleEndian(UInt64.self, at: variantsOffset + variantBytes)
        case 3:
            let topic = bytes.loadLittleEndian(UInt64.self, at: variantsOffset + variantBytes)
            return topic == 0 ? nil : topic
        default: return nil
        }
    }

    // MARK: Writing

    package static func bytes(
        of message: StoredMessage, owners: [Ordinal], isInLine: Bool, hasReport: Bool = false,
        flags other: Flags = .none
    ) -> [UInt8] {
        invariant(
            message.variants.count <= Int(Flags.variantCountMask),
            "A message has up to three variants.")
        invariant(owners.count <= Int(UInt16.max), "The owners of a message have 16 bits of count.")
        invariant(
            message.from.utf8.count <= Int(UInt16.max),
            "The sender of a message has 16 bits of length.")
        invariant(
            other.contains(.hasBlob) == owners.isEmpty,
            "A message has owners or a blob of recipients.")
        var flags = other
        flags.insert(Flags(rawValue: UInt8(message.variants.count)))
        flags.insert(Flags(rawValue: message.options.flags(in: .record)))
        if message.number != message.sequence.rawValue { flags.insert(.hasNumber) }
        assert(
            message.variants.reduce(0) { $0 + $1.platforms.rawValue.nonzeroBitCount }
                == message.variants.reduce(into: PlatformSet()) { $0.formUnion($1.platforms) }
                .rawValue
                .nonzeroBitCount, "The variants of a message have disjoint platforms.")
        let bodyBytes = message.variants.reduce(0) { $0 + $1.body.count }
        var writer = RecordWriter()
        writer.bytes.reserveCapacity(112 + owners.count * 4 + message.from.utf8.count + bodyBytes)
        writer.append(message.accepted.millisecondsSince1970)
        writer.append(UInt16(owners.count))
        writer.append(UInt16(0))
        writer.append(
            message.kind.rawValue | (isInLine ? inLineBit : 0) | (hasReport ? reportBit : 0))
        writer.append(flags.rawValue)
        writer.append(UInt16(message.from.utf8.count))
        for variant in message.variants {
            writer.append(variant.expires.millisecondsSince1970)
            writer.append(UInt32(variant.body.count))
            writer.append(variant.platforms.rawValue)
            let traits = variant.priority.rawValue
            switch variant.collapse {
            case .none: writer.append(traits)
            case .app: writer.append(traits | 1 << 2)
            case .named(let key):
                writer.append(traits | 2 << 2)
                writer.append(CollapseDigest(of: key).rawValue)
            case .opaque(let topic):
                writer.append(traits | 3 << 2)
                writer.append(topic.map { CollapseDigest(ofTopic: $0).rawValue } ?? 0)
            }
        }
        if flags.contains(.hasNumber) { writer.append(message.number) }
        for owner in owners { writer.append(owner.rawValue) }
        writer.bytes.append(contentsOf: message.from.utf8)
        if !flags.contains(.isDropped) {
            for variant in message.variants { writer.bytes += variant.body }
        }
        return writer.bytes
    }

    /// The record without one of its owners.
    package func bytes(without ordinal: Ordinal, isTaken: Bool) throws(StorageError) -> [UInt8] {
        let owners = try places().owners
        guard let index = try self.owners().firstIndex(of: ordinal) else {
            throw Self.damaged(bytes)
        }
        var copy = Array(bytes)
        invariant(index < ownerCount, "An owner that leaves is one of the owners.")
        copy.removeSubrange((owners + index * 4)..<(owners + index * 4 + 4))
        // The counts never exceed the initial number of rows, so each fits into 16 bits.
        let counts = UInt32(ownerCount - 1) | UInt32(takerCount + (isTaken ? 1 : 0)) << 16
        withUnsafeBytes(of: counts.littleEndian) {
            copy.replaceSubrange(Self.ownerCountOffset..<(Self.ownerCountOffset + 4), with: $0)
        }
        return copy
    }

    /// The record without bodies. With `end`, each variant expires at `end` at the latest, and the message leaves the
    /// expiry line. A variant whose time was over at `end` expires before `end`, so that `end` marks the variants whose
    /// time was cut short.
    package func dropped(
        expiring end: Instant?, _ more: Flags = .none
    ) throws(StorageError) -> [UInt8] {
        var copy = Array(bytes.prefix(try places().owners + ownerCount * 4 + fromBytes))
        invariant(copy.count <= bytes.count, "A record loses its bodies and gains nothing.")
        copy[Self.flagsOffset] |= more.union(.isDropped).rawValue
        guard let end else { return copy }
        copy[Self.kindOffset] &= ~Self.inLineBit
        var at = Self.variantsOffset
        for variant in try self.variants() {
            let expires =
                variant.expires > end
                ? end.millisecondsSince1970
                : min(variant.expires.millisecondsSince1970, end.millisecondsSince1970 - 1)
            withUnsafeBytes(of: expires.littleEndian) {
                copy.replaceSubrange(at..<(at + 8), with: $0)
            }
            at += Self.variantBytes
            switch variant.collapse {
            case .none, .app: break
            case .key, .opaque: at += 8
            }
        }
        return copy
    }
}

extension CollapseDigest {
    /// The digest of a collapse key, or of the package name that stands for `CollapseKey.app`.
    public init(of key: String) {
        let word = SHA256.hash(Array(key.utf8)).prefix(8).reduce(0 as UInt64) {
            $0 << 8 | UInt64($1)
        }
        self.init(rawValue: word)
    }

    /// MSG-11: the digest of an opaque message's topic, never 0. The prefix keeps topics apart from collapse keys.
    public init(ofTopic topic: String) {
        let digest = CollapseDigest(of: "\u{0}" + topic)
        self.init(rawValue: max(digest.rawValue, 1))
    }
}
