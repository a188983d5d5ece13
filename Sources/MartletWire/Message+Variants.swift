// SPDX-License-Identifier: Apache-2.0
//
// What a sender said becomes what the instances of each platform get (MSG-5): the blocks are checked
// and merged into what is common, once, when the message is accepted. Whether a message is collapsible
// (COL-2) depends on what it is after that, so it is decided here. Rests on `Message+Validation`.

public import MartletBase

extension Message {
    /// Checks an encoded message as the broker does before it accepts one, and merges its blocks.
    /// One variant for all platforms if there is no block; else one for each that differs and one
    /// for the rest, unless blocks are all there is: then the other platforms get nothing. What the
    /// parameters say holds where a block does not say otherwise; an empty text is none.
    public static func variants(
        of bytes: [UInt8], target kind: TargetKind, lifespan: Lifespan = .longest,
        priority: MessagePriority = .normal, collapseKey: String = "",
        restrictedPackageName: String = ""
    ) throws(MartletError) -> [OutgoingVariant] {
        let common = Traits(
            lifespan: lifespan, priority: priority, collapseKey: collapseKey,
            restrictedPackageName: restrictedPackageName)
        try common.check()
        return try bytes.span.bytes.withUnsafeBytes { (memory) throws(MartletError) in
            let outline = try checkedOutline(memory)
            guard !outline.blocks.isEmpty else {
                try checkSize(outline.summary, "message")
                return [common.variant(.all, kind, outline.summary, bytes)]
            }
            let plain = UnsafeRawBufferPointer(rebasing: memory[..<outline.plainBytes])
            return try merged(plain, outline, common, kind)
        }
    }

    private static func merged(
        _ plain: UnsafeRawBufferPointer, _ outline: Outline, _ common: Traits, _ kind: TargetKind
    ) throws(MartletError) -> [OutgoingVariant] {
        var variants: [OutgoingVariant] = []
        var rest = PlatformSet.all
        for block in outline.blocks {
            let place = Place.block(block.platform)
            var traits = common
            let ownData = try checkBlock(block.content, block.platform, &traits)
            let body = merge(plain, block.content, ownData)
            let summary = count(body)
            try checkSize(summary, place.path)
            variants.append(traits.variant(.init(block.platform), kind, summary, body))
            rest.remove(.init(block.platform))
        }
        if !rest.isEmpty, outline.summary.hasContent {
            try checkSize(outline.summary, "message")
            variants.append(common.variant(rest, kind, outline.summary, [UInt8](plain)))
        }
        return joined(variants)
    }

    /// Variants that say the same are one.
    private static func joined(_ variants: [OutgoingVariant]) -> [OutgoingVariant] {
        var distinct: [OutgoingVariant] = []
        for variant in variants {
            let same = distinct.firstIndex { other in
                var other = other
                other.platforms = variant.platforms
                return other == variant
            }
            if let same {
                distinct[same].platforms.formUnion(variant.platforms)
            } else {
                distinct.append(variant)
            }
        }
        return distinct
    }

    /// The common fields with the block's in their place, then what only the block has. Both are in
    /// the order of their tags, and so is what comes of it.
    private static func merge(
        _ plain: UnsafeRawBufferPointer, _ block: UnsafeRawBufferPointer,
        _ ownData: [UnsafeRawBufferPointer]
    ) -> [UInt8] {
        var writer = WireWriter(reservingBytes: plain.count + block.count)
        var pending = Cursor(plain)
        var own = Cursor(block)
        while let field = own.field, field.tag < Tag.data {
            while let other = pending.field, other.tag <= field.tag {
                if other.tag < field.tag { writer.field(other) }
                pending.advance()
            }
            writer.field(field)
            own.advance()
        }
        while let field = pending.field {
            let isOverridden =
                field.tag == Tag.data && ownData.contains { sameKey($0, field.content) }
            if !isOverridden { writer.field(field) }
            pending.advance()
        }
        while let field = own.field {
            if field.tag == Tag.data || field.tag >= Tag.option { writer.field(field) }
            own.advance()
        }
        return writer.bytes
    }

    private static func sameKey(
        _ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer
    ) -> Bool {
        let count = 2 + (Int(one[0]) | Int(one[1]) << 8)
        return other.count >= count && one.prefix(count).elementsEqual(other.prefix(count))
    }

    /// What the size and the kind of a merged message are.
    private static func count(_ body: [UInt8]) -> Summary {
        body.span.bytes.withUnsafeBytes { bytes in
            var summary = Summary()
            var fields = Cursor(bytes)
            while let field = fields.field {
                summary.count(field)
                fields.advance()
            }
            return summary
        }
    }

    /// Fields that were checked before, one after another.
    private struct Cursor {
        private let bytes: UnsafeRawBufferPointer
        private var offset = 0
        init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

        var field: Field? {
            guard offset < bytes.count else { return nil }
            let count = Int(bytes[offset + 1]) | Int(bytes[offset + 2]) << 8
            let start = offset + Field.headBytes
            return Field(
                tag: bytes[offset], offset: start,
                content: UnsafeRawBufferPointer(rebasing: bytes[start..<start + count]))
        }

        mutating func advance() {
            guard let field else { return }
            offset = field.offset + field.content.count
        }
    }

    /// What SEND or a block says of the sending.
    struct Traits {
        var lifespan: Lifespan
        var priority: MessagePriority
        var collapseKey: String
        var restrictedPackageName: String
        /// Whether the key is one of those that Apple's devices and browsers have for notifications too.
        var isKeyForNotifications = false

        /// COL-2.
        private func collapse(_ kind: TargetKind, _ summary: Summary) -> CollapseKey {
            if summary.hasNotification, !isKeyForNotifications { return .app }
            if !collapseKey.isEmpty { return .named(collapseKey) }
            return kind == .topic && summary.isEmpty ? .app : .none
        }

        func variant(
            _ platforms: PlatformSet, _ kind: TargetKind, _ summary: Summary, _ body: [UInt8]
        ) -> OutgoingVariant {
            OutgoingVariant(
                platforms: platforms, lifespan: lifespan, priority: priority,
                collapse: collapse(kind, summary),
                restrictedPackageName: restrictedPackageName.isEmpty ? nil : restrictedPackageName,
                body: body)
        }

        func check() throws(MartletError) {
            if case .seconds(let seconds) = lifespan, seconds > Limits.timeToLiveSecondsMax {
                throw Message.timeToLiveTooLong("time_to_live")
            }
            try Message.checkLength(
                collapseKey.utf8.count, Limits.collapseKeyBytesMax, "collapse key", "collapse_key")
            try Message.checkLength(
                restrictedPackageName.utf8.count, Limits.appNameBytesMax, "package name",
                "restricted_package_name")
        }
    }
}

extension WireWriter {
    fileprivate mutating func field(_ field: Message.Field) {
        u8(field.tag)
        u16(UInt16(field.content.count))
        raw(field.content)
    }
}
