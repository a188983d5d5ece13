// SPDX-License-Identifier: Apache-2.0
//
// The runs of sixteen neighbouring blocks in one piece of bytes: the form of sets whose members lie together, such
// as all instances, the instances of an app, or the instances that registered in one campaign. A run takes four
// bytes, independent of its length. Half a million instances of a large set take a few hundred bytes, so walking
// such a set reads little, and counting is arithmetic.
//
//     offset  size  content
//          0    32  for each of the 16 blocks, the number of toggles in the block and in earlier blocks
//         32     2  for each toggle, block by block: the first bit of a run, and the first bit behind
//                   the run, in turn, ascending; a run ends at the end of its block at the latest
//         end   31  zero: vectors of toggles are read whole
//
// The odd length distinguishes a span from every other form. Rests on the kernels.

internal import CBitKernels
import MartletBase

/// The members of one set in 16 blocks, borrowed: valid as long as the bytes behind the span.
public struct RunSpan {
    @usableFromInline let base: UnsafeRawPointer

    /// Blocks of a span. The number of the first block is a multiple of `blockCount`.
    public static let blockCount = 16
    /// Toggles of a span. At this bound a row takes 1.6 KB, so the row needs no overflow page in the store.
    public static let togglesMax = 768
    /// Toggles of one block. Bounded because the kernels compare every toggle with every other toggle.
    static let togglesPerBlockMax = Int(CBK_BLOCK_TOGGLES_MAX)
    static let headBytes = 2 * blockCount
    static let slackBytes = Int(CBK_SPAN_SLACK)
    /// Bytes of a span with `togglesMax` toggles: the longest span.
    public static let bytesMax = headBytes + 2 * togglesMax + slackBytes

    /// The number of the first block in the span that contains `block`.
    @inlinable public static func start(ofBlock block: UInt32) -> UInt32 { block & ~15 }

    /// nil unless the bytes are a span, aligned to 2, whose parts all lie inside the bytes. The order of the
    /// toggles is not checked.
    public init?(checking bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress, cbk_span_is_sound(base, bytes.count) != 0 else {
            return nil
        }
        self.base = base
    }

    /// Reads the bytes that a builder wrote.
    init(trusted base: UnsafeRawPointer) { self.base = base }

    /// The span without members.
    public static var empty: RunSpan { RunSpan(trusted: cbk_empty_span_address()) }

    /// The address of the bytes, for the kernels.
    @inlinable public var address: UnsafeRawPointer { base }

    /// The number of toggles in all blocks: two per run.
    public var toggleCount: Int { end(15) }

    /// The number of members in all blocks.
    public var count: Int {
        withUnsafePointer(to: base) {
            BitKernels.current.countSpans(UnsafeBufferPointer(start: $0, count: 1), 0b10)
        }
    }

    /// The members in one of the blocks.
    /// - Parameter index: 0 ..< 16.
    @inlinable
    public func view(ofBlockAt index: Int) -> BlockView {
        precondition(index >= 0 && index < 16, "A span has 16 blocks.")
        let from = index == 0 ? 0 : end(index &- 1)
        let count = end(index) &- from
        guard count > 0 else { return .empty }
        let toggles = (base + 32).assumingMemoryBound(to: UInt16.self) + from
        if count == 2, toggles[0] == 0, Int(toggles[1]) == BlockGeometry.bitsPerBlock {
            return .full
        }
        return .runs(UnsafeBufferPointer(start: toggles, count: count))
    }

    /// Whether the toggles of a block ascend and stay within the block's 32,640 bits.
    public func isAscending(inBlockAt index: Int) -> Bool {
        precondition(index >= 0 && index < 16, "A span has 16 blocks.")
        let toggles = (base + 32).assumingMemoryBound(to: UInt16.self)
        var previous = -1
        for at in (index == 0 ? 0 : end(index - 1))..<end(index) {
            guard Int(toggles[at]) > previous else { return false }
            previous = Int(toggles[at])
        }
        return previous <= BlockGeometry.bitsPerBlock
    }

    @inlinable func end(_ index: Int) -> Int {
        Int(base.assumingMemoryBound(to: UInt16.self)[index])
    }
}

/// Builds a span block by block.
public struct RunSpanBuilder: ~Copyable {
    private let storage: UnsafeMutableRawBufferPointer
    private var blocks = 0
    /// The number of toggles so far: two per run.
    public private(set) var toggleCount = 0
    /// The number of members so far.
    public private(set) var count = 0

    /// A builder whose next block is the first block of the span.
    public init() {
        storage = .allocate(byteCount: RunSpan.bytesMax, alignment: 8)
        storage.initializeMemory(as: UInt8.self, repeating: 0)
    }

    deinit { storage.deallocate() }

    /// Adds the next block.
    ///
    /// - Returns: false if the block has more runs than a block or the span may hold. The builder is then unusable.
    public mutating func append(_ view: BlockView) -> Bool {
        invariant(blocks < RunSpan.blockCount, "A span has 16 blocks.")
        let room = min(RunSpan.togglesPerBlockMax, RunSpan.togglesMax - toggleCount)
        let target = UnsafeMutableBufferPointer(start: toggles + toggleCount, count: room)
        guard let added = view.writeToggles(into: target) else { return false }
        close(target, added)
        return true
    }

    /// Adds the next block after adding bits to the view or removing bits from the view.
    /// - Parameter bits: ascending and distinct.
    /// - Returns: false if the block has more runs than a block or the span may hold. The builder is then unusable.
    public mutating func append(
        _ view: BlockView, changing bits: UnsafeBufferPointer<UInt16>, adding: Bool
    ) -> Bool {
        invariant(blocks < RunSpan.blockCount, "A span has 16 blocks.")
        let room = min(RunSpan.togglesPerBlockMax, RunSpan.togglesMax - toggleCount)
        let target = UnsafeMutableBufferPointer(start: toggles + toggleCount, count: room)
        let added = withUnsafeTemporaryAllocation(
            of: UInt16.self, capacity: RunSpan.togglesPerBlockMax
        ) { old -> Int? in
            guard let count = view.writeToggles(into: old) else { return nil }
            return RunMerge.change(
                UnsafeBufferPointer(rebasing: old[..<count]), bits, adding: adding, into: target)
        }
        guard let added else { return false }
        close(target, added)
        return true
    }

    /// Calls `body` with the bytes of the span, which are valid until `body` returns. Blocks that were not added have no
    /// members.
    public mutating func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        while blocks < RunSpan.blockCount { _ = append(.empty) }
        let used = RunSpan.headBytes + 2 * toggleCount + RunSpan.slackBytes
        // Clear the toggles that a refused block may have left behind the last toggle.
        storage[(used - RunSpan.slackBytes)..<used].initializeMemory(as: UInt8.self, repeating: 0)
        return try body(UnsafeRawBufferPointer(rebasing: storage[..<used]))
    }

    private var toggles: UnsafeMutablePointer<UInt16> {
        (storage.baseAddress! + RunSpan.headBytes).assumingMemoryBound(to: UInt16.self)
    }

    private mutating func close(_ added: UnsafeMutableBufferPointer<UInt16>, _ addedCount: Int) {
        for at in stride(from: 0, to: addedCount, by: 2) {
            count += Int(added[at + 1]) - Int(added[at])
        }
        toggleCount += addedCount
        storage.storeBytes(
            of: UInt16(truncatingIfNeeded: toggleCount), toByteOffset: 2 * blocks, as: UInt16.self)
        blocks += 1
    }
}

/// Adds single bits to runs, and removes single bits from runs.
enum RunMerge {
    /// Writes the toggles of a set with bits added or removed.
    /// - Parameters:
    ///   - toggles: strictly ascending.
    ///   - bits: strictly ascending.
    /// - Returns: the number of toggles; nil if `target` has no room for all of them.
    static func change(
        _ toggles: UnsafeBufferPointer<UInt16>, _ bits: UnsafeBufferPointer<UInt16>, adding: Bool,
        into target: UnsafeMutableBufferPointer<UInt16>
    ) -> Int? {
        let nothing = Int.max
        var (at, bit, written) = (0, 0, 0)
        var (isOld, isChanged, isMember) = (false, false, false)
        // While `isChanged`: the end of the current run of `bits`. Otherwise: the begin of the next run.
        var next = bits.isEmpty ? nothing : Int(bits[0])
        while true {
            let old = at < toggles.count ? Int(toggles[at]) : nothing
            let position = min(old, next)
            guard position < nothing else { return written }
            if old == position {
                isOld.toggle()
                at &+= 1
            }
            if next == position {
                isChanged.toggle()
                if isChanged {
                    bit &+= 1
                    while bit < bits.count, Int(bits[bit]) == Int(bits[bit &- 1]) &+ 1 {
                        bit &+= 1
                    }
                    next = Int(bits[bit &- 1]) &+ 1
                } else {
                    next = bit < bits.count ? Int(bits[bit]) : nothing
                }
            }
            let isNow = adding ? isOld || isChanged : isOld && !isChanged
            guard isNow != isMember else { continue }
            guard written < target.count else { return nil }
            target[written] = UInt16(truncatingIfNeeded: position)
            written &+= 1
            isMember = isNow
        }
    }
}
