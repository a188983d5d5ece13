// SPDX-License-Identifier: Apache-2.0
//
// How a waiting message is stored; the store keeps the bytes without looking into them. Little-endian. Rests on
// Command.
//
//     u8 version (1 or 2) ‖ u8 target kind ‖ text target ‖ u8 flags (1: wants receipts, 2: an earlier message's
//     number follows) ‖ [u64 number] ‖ u8 variants, each
//     u8 platforms ‖ u8 priority ‖ u8 lifespan kind (0 seconds, 1 until) ‖ i64 lifespan ‖
//     u8 collapse (0 none, 1 app, 2 named) ‖ text key ‖ u8 restricted? ‖ text package name ‖ text body
//     ‖ from version 2 on, u32 addressees, each u8 0, or u8 1 ‖ u32 ordinal ‖ u64 holder
//
// The addressees belong to the target's tokens, in order. Version 1 has none, so the tokens are looked up at sending. A
// text is a u32 length and as many bytes. The text of several targets is their concatenation, each with its kind.

import MartletBase
import MartletRows

enum ScheduledSend {
    private static let version: UInt8 = 2
    private static let versionWithoutAddressees: UInt8 = 1

    static func bytes(of message: SendCommand, to addressees: Addressees) -> [UInt8] {
        var writer = Writer()
        writer.append(version)
        writer.append(message.target)
        var flags = message.options.flags(in: .waiting)
        if message.notReceived != nil { flags |= 2 }
        writer.append(flags)
        if let number = message.notReceived { writer.append(number) }
        writer.append(UInt8(message.variants.count))
        for variant in message.variants {
            writer.append(variant.platforms.rawValue)
            writer.append(variant.priority.rawValue)
            switch variant.lifespan {
            case .seconds(let seconds): writer.append(0, Int64(seconds))
            case .until(let end): writer.append(1, end.millisecondsSince1970)
            case .longest: invariantFailure("A message waits with the end of its life.")
            }
            switch variant.collapse {
            case .none: writer.append(0, [])
            case .app: writer.append(1, [])
            case .named(let key): writer.append(2, Array(key.utf8))
            case .opaque(let topic): writer.append(3, Array((topic ?? "").utf8))
            }
            if let name = variant.restrictedPackageName {
                writer.append(1, Array(name.utf8))
            } else {
                writer.append(0, [])
            }
            writer.append(variant.body)
        }
        writer.append(addressees)
        return writer.bytes
    }

    static func message(_ bytes: [UInt8]) throws(StorageError) -> SendCommand {
        try read(bytes).message
    }

    static func read(
        _ bytes: [UInt8]
    ) throws(StorageError) -> (message: SendCommand, addressees: Addressees) {
        var reader = Reader(bytes: bytes)
        let version = try reader.byte()
        guard version == Self.version || version == versionWithoutAddressees else {
            throw reader.damaged()
        }
        let target = try self.target(&reader)
        let flags = try reader.byte()
        let notReceived = flags & 2 != 0 ? try reader.unsigned() : nil
        var variants: [OutgoingVariant] = []
        for _ in 0..<(try reader.byte()) { variants.append(try variant(&reader)) }
        var addressees: [Addressee?] = []
        if version == Self.version {
            for _ in 0..<(try reader.count()) { addressees.append(try reader.addressee()) }
        }
        guard reader.isAtEnd else { throw reader.damaged() }
        let message = SendCommand(
            target: target, variants: variants, options: MessageOptions(flags, in: .waiting),
            notReceived: notReceived)
        return (message, Addressees(addressees, of: target))
    }

    private static func target(
        _ reader: inout Reader
    ) throws(StorageError) -> SendCommand.Target {
        let kind = TargetKind(rawValue: try reader.byte())
        let bytes = try reader.text()
        let text = String(decoding: bytes, as: UTF8.self)
        switch kind {
        case .token: return .token(text)
        case .topic: return .topic(text)
        case .condition: return .condition(text)
        case .group: return .group(text)
        case .several:
            var entries = Reader(bytes: bytes)
            var targets: [SendCommand.Target] = []
            while !entries.isAtEnd { targets.append(try target(&entries)) }
            return .several(targets)
        case nil: throw reader.damaged()
        }
    }

    private static func variant(_ reader: inout Reader) throws(StorageError) -> OutgoingVariant {
        let platforms = PlatformSet(rawValue: try reader.byte())
        guard let priority = MessagePriority(rawValue: try reader.byte()) else {
            throw reader.damaged()
        }
        let isUntil = try reader.byte() == 1
        let life = try reader.long()
        let collapseKind = try reader.byte()
        let key = String(decoding: try reader.text(), as: UTF8.self)
        let isRestricted = try reader.byte() == 1
        let name = String(decoding: try reader.text(), as: UTF8.self)
        let collapse: CollapseKey
        switch collapseKind {
        case 0: collapse = .none
        case 1: collapse = .app
        case 3: collapse = .opaque(topic: key.isEmpty ? nil : key)
        default: collapse = .named(key)
        }
        return OutgoingVariant(
            platforms: platforms,
            lifespan: isUntil
                ? .until(Instant(millisecondsSince1970: life)) : .seconds(UInt32(clamping: life)),
            priority: priority, collapse: collapse,
            restrictedPackageName: isRestricted ? name : nil, body: try reader.text())
    }
}

/// Appends fields.
private struct Writer {
    var bytes: [UInt8] = []

    mutating func append(_ byte: UInt8) { bytes.append(byte) }
    mutating func append(_ value: UInt64) { number(value) }
    mutating func append(_ byte: UInt8, _ text: [UInt8]) {
        bytes.append(byte)
        append(text)
    }
    mutating func append(_ byte: UInt8, _ value: Int64) {
        bytes.append(byte)
        number(value)
    }
    mutating func append(_ target: SendCommand.Target) {
        switch target {
        case .token(let text): append(TargetKind.token.rawValue, Array(text.utf8))
        case .topic(let text): append(TargetKind.topic.rawValue, Array(text.utf8))
        case .condition(let text): append(TargetKind.condition.rawValue, Array(text.utf8))
        case .group(let text): append(TargetKind.group.rawValue, Array(text.utf8))
        case .several(let targets):
            var entries = Writer()
            for target in targets { entries.append(target) }
            append(TargetKind.several.rawValue, entries.bytes)
        }
    }
    mutating func append(_ text: [UInt8]) {
        number(UInt32(text.count))
        bytes += text
    }

    mutating func append(_ addressees: Addressees) {
        number(UInt32(addressees.inOrder.count))
        for addressee in addressees.inOrder {
            guard let addressee else {
                append(UInt8(0))
                continue
            }
            append(UInt8(1))
            number(addressee.ordinal.rawValue)
            number(addressee.holder.word)
        }
    }

    private mutating func number(_ value: some FixedWidthInteger) {
        for index in 0..<(value.bitWidth / 8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> (index * 8)))
        }
    }
}

/// Takes fields in the order in which they were appended.
private struct Reader {
    let bytes: [UInt8]
    private var offset = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { offset == bytes.count }

    mutating func byte() throws(StorageError) -> UInt8 { UInt8(try number(1)) }
    mutating func unsigned() throws(StorageError) -> UInt64 { try number(8) }
    mutating func long() throws(StorageError) -> Int64 { Int64(bitPattern: try number(8)) }
    mutating func count() throws(StorageError) -> Int { Int(try number(4)) }
    mutating func addressee() throws(StorageError) -> Addressee? {
        switch try byte() {
        case 0: return nil
        case 1:
            return Addressee(
                ordinal: Ordinal(UInt32(try number(4))), holder: Holder(word: try number(8)))
        default: throw damaged()
        }
    }
    mutating func text() throws(StorageError) -> [UInt8] {
        let count = Int(try number(4))
        guard bytes.count - offset >= count else { throw damaged() }
        defer { offset += count }
        return Array(bytes[offset..<(offset + count)])
    }

    func damaged() -> StorageError {
        StorageError(
            operation: "read scheduled", code: 0,
            text: "a record is damaged (at byte \(offset)); run 'martlet check'", isFull: false)
    }

    private mutating func number(_ size: Int) throws(StorageError) -> UInt64 {
        guard bytes.count - offset >= size else { throw damaged() }
        defer { offset += size }
        return (0..<size).reduce(0) { $0 | UInt64(bytes[offset + $1]) << (UInt64($1) * 8) }
    }
}
