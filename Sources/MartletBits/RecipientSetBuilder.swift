// SPDX-License-Identifier: Apache-2.0
//
// Writes a recipients blob block by block, in ascending order, as the evaluator yields them. Rests on the layout
// described in RecipientSet.swift.

import MartletBase

/// Collects blocks and makes a `RecipientSet`.
public struct RecipientSetBuilder: ~Copyable {
    private var directory: [(block: UInt32, count: UInt32, offset: UInt32, form: UInt32)] = []
    /// Payloads so far, in chunks, so that a growing payload is never copied. Offsets count from the first payload
    /// byte until `finish` knows the size of the directory.
    private var chunks: [(memory: UnsafeMutableRawBufferPointer, used: Int)]
    private var payloadBytes = 0
    private static let firstChunkBytes = 16 * 1024
    private static let chunkBytes = 256 * 1024
    /// The number of members so far.
    public private(set) var count: UInt64 = 0
    private let positions: UnsafeMutablePointer<UInt16>

    /// A builder without blocks: `finish` would return the set without members.
    public init() {
        chunks = [(.allocate(byteCount: Self.firstChunkBytes, alignment: 64), 0)]
        positions = .allocate(capacity: BlockGeometry.listCountMax + BitKernels.compressSlack)
    }

    deinit {
        for chunk in chunks { chunk.memory.deallocate() }
        positions.deallocate()
    }

    /// Adds a block. Blocks come in ascending order; a block without members is left out.
    ///
    /// - Parameter count: the number of members in `view`, which the caller already knows.
    public mutating func append(block: UInt32, view: BlockView, count members: Int) {
        guard members > 0 else { return }
        invariant(members <= BlockGeometry.bitsPerBlock, "A block has 32,640 bits.")
        invariant(block <= BlockGeometry.blockMax, "The highest block has the highest ordinal.")
        invariant(
            block > directory.last?.block ?? 0 || directory.isEmpty,
            "Blocks are appended in ascending order.")
        count += UInt64(members)
        let offset = UInt32(payloadBytes)
        if members == BlockGeometry.bitsPerBlock {
            directory.append((block, UInt32(members), offset, RecipientSetLayout.formFull))
            return
        }
        if appendRuns(of: view, count: members) {
            directory.append((block, UInt32(members), offset, RecipientSetLayout.formRuns))
            return
        }
        if members <= BlockGeometry.listCountMax {
            let written = view.writePositions(into: positions)
            invariant(written == members, "The count given is not the view's.")
            let bytes = (members * 2 + 7) & ~7
            let target = reserve(bytes)
            target.initializeMemory(as: UInt8.self, repeating: 0, count: bytes)
            target.copyMemory(from: positions, byteCount: members * 2)
            directory.append((block, UInt32(members), offset, RecipientSetLayout.formList))
            return
        }
        let target = reserve(BlockGeometry.bytesPerBlock)
        if case .bitmap(let words) = view {
            target.copyMemory(from: words, byteCount: BlockGeometry.bytesPerBlock)
        } else if case .runs(let toggles) = view {
            let words = target.initializeMemory(
                as: UInt64.self, repeating: 0, count: BlockGeometry.wordsPerBlock)
            set(runs: toggles, in: words)
        } else {
            let buffer = BlockBuffer(view)
            buffer.withBytes { target.copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
        }
        directory.append((block, UInt32(members), offset, RecipientSetLayout.formBitmap))
    }

    /// Adds a block. Blocks come in ascending order; a block without members is left out.
    ///
    /// - Parameter count: the number of members in `buffer`, which the caller already knows.
    public mutating func append(block: UInt32, buffer: borrowing BlockBuffer, count: Int) {
        buffer.withView { append(block: block, view: $0, count: count) }
    }

    /// Adds the block as runs.
    ///
    /// - Returns: false if another form has fewer bytes, or if the block has more runs than the form allows.
    private mutating func appendRuns(of view: BlockView, count members: Int) -> Bool {
        // A list of four members takes 8 bytes, as many as one run.
        guard members > 4 else { return false }
        return withUnsafeTemporaryAllocation(
            of: UInt16.self, capacity: RecipientSetLayout.togglesMax
        ) { toggles in
            guard let count = view.writeToggles(into: toggles), count < members - 1 else {
                return false
            }
            let target = reserve((2 + 2 * count + 7) & ~7)
            target.initializeMemory(as: UInt64.self, repeating: 0, count: (2 + 2 * count + 7) / 8)
            target.storeBytes(of: UInt16(count).littleEndian, as: UInt16.self)
            (target + 2).copyMemory(from: toggles.baseAddress!, byteCount: 2 * count)
            return true
        }
    }

    /// The blob of all added blocks.
    public consuming func finish() -> RecipientSet {
        typealias Layout = RecipientSetLayout
        let head = Layout.headerBytes + directory.count * Layout.entryBytes
        let total = head + payloadBytes
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: total, alignment: 64)
        bytes.storeBytes(of: Layout.magic.littleEndian, toByteOffset: 0, as: UInt32.self)
        bytes.storeBytes(
            of: UInt32(directory.count).littleEndian, toByteOffset: 4, as: UInt32.self)
        bytes.storeBytes(of: count.littleEndian, toByteOffset: 8, as: UInt64.self)
        bytes.storeBytes(of: UInt64(total).littleEndian, toByteOffset: 16, as: UInt64.self)
        bytes.storeBytes(of: 0, toByteOffset: 24, as: UInt64.self)
        var at = Layout.headerBytes
        for entry in directory {
            let offset = UInt32(head) + entry.offset
            bytes.storeBytes(of: entry.block.littleEndian, toByteOffset: at, as: UInt32.self)
            bytes.storeBytes(of: entry.count.littleEndian, toByteOffset: at + 4, as: UInt32.self)
            bytes.storeBytes(of: offset.littleEndian, toByteOffset: at + 8, as: UInt32.self)
            bytes.storeBytes(of: entry.form.littleEndian, toByteOffset: at + 12, as: UInt32.self)
            at += Layout.entryBytes
        }
        at = head
        for chunk in chunks where chunk.used > 0 {
            (bytes.baseAddress! + at).copyMemory(
                from: chunk.memory.baseAddress!, byteCount: chunk.used)
            at += chunk.used
        }
        invariant(at == total, "A blob has all members of its blocks.")
        return RecipientSet(adopting: bytes)
    }

    /// Reserves room at the end of the payload for `bytes` more, at most the bytes of a bitmap.
    private mutating func reserve(_ bytes: Int) -> UnsafeMutableRawPointer {
        var last = chunks.count - 1
        if chunks[last].used + bytes > chunks[last].memory.count {
            chunks.append((.allocate(byteCount: Self.chunkBytes, alignment: 64), 0))
            last += 1
        }
        defer {
            chunks[last].used += bytes
            payloadBytes += bytes
        }
        return chunks[last].memory.baseAddress! + chunks[last].used
    }
}
