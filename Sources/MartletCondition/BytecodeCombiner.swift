// SPDX-License-Identifier: Apache-2.0
//
// Combines the sets of one block by bytecode, for conditions of more than five topics. A register is a view. If an
// operand already is the result (for example because the other operand is full or empty), the register points to
// the operand and no word is read. Short lists stay lists; runs become bitmaps first. Rests on `Program` and
// `BlockBuffer`.

internal import MartletBits

/// Runs one program block by block.
final class BytecodeCombiner {
    private let program: Program
    private let registers: UnsafeMutablePointer<BlockView>
    /// Memory behind each register, and one spare buffer. An instruction writes to the spare buffer, because its
    /// target may be one of its operands; afterwards the spare buffer and the target's buffer change places.
    private let buffers: UnsafeMutablePointer<BlockBuffer>
    private let bufferCount: Int
    /// The slots' sets, with bitmaps in place of runs.
    private let slots: UnsafeMutablePointer<BlockView>
    // Memory for the bitmaps of sets with runs, allocated when first needed.
    private let slotBuffers: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>?>
    private let slotCount: Int
    private let kernels = BitKernels.current

    init(_ program: Program) {
        self.program = program
        registers = .allocate(capacity: program.registerCount)
        registers.initialize(repeating: .empty, count: program.registerCount)
        bufferCount = program.registerCount + 1
        buffers = .allocate(capacity: bufferCount)
        for index in 0..<bufferCount { (buffers + index).initialize(to: BlockBuffer()) }
        slotCount = program.topicCount + (program.usesUniverse ? 1 : 0)
        slots = .allocate(capacity: slotCount)
        slots.initialize(repeating: .empty, count: slotCount)
        slotBuffers = .allocate(capacity: slotCount)
        slotBuffers.initialize(repeating: nil, count: slotCount)
    }

    deinit {
        slots.deallocate()
        for slot in 0..<slotCount { slotBuffers[slot]?.deallocate() }
        slotBuffers.deallocate()
        registers.deallocate()
        buffers.deinitialize(count: bufferCount)
        buffers.deallocate()
    }

    /// The result for one block.
    func combine(_ stored: UnsafePointer<BlockView>) -> (view: BlockView, count: Int) {
        let spare = bufferCount - 1
        for slot in 0..<slotCount { slots[slot] = withoutRuns(stored[slot], slot) }
        let views = UnsafePointer(slots)
        for instruction in program.instructions {
            let left = operand(instruction.left, views)
            let right = operand(instruction.right, views)
            let result =
                switch instruction.operation {
                case .and: and(left, right, spare)
                case .or: or(left, right, spare)
                case .andNot: andNot(left, right, spare)
                }
            registers[instruction.target] = result.view
            own(result.origin, of: instruction, spare)
        }
        let view = operand(program.result, views)
        let count = view.count
        return (count == 0 ? .empty : view, count)
    }

    private func withoutRuns(_ view: BlockView, _ slot: Int) -> BlockView {
        guard case .runs = view else { return view }
        let words: UnsafeMutablePointer<UInt64>
        if let made = slotBuffers[slot] {
            words = made
        } else {
            let raw = UnsafeMutableRawPointer.allocate(byteCount: 4096, alignment: 64)
            words = raw.initializeMemory(as: UInt64.self, repeating: 0, count: 512)
            slotBuffers[slot] = words
        }
        view.write(toWords: words)
        return .bitmap(UnsafePointer(words))
    }

    /// Where the memory of a result lies.
    private enum Origin {
        /// The result needs no memory.
        case nothing
        /// The result is the left operand.
        case left
        /// The result is the right operand.
        case right
        /// The result is in the spare buffer.
        case spare
    }

    private typealias Result = (view: BlockView, origin: Origin)

    /// Keeps the invariant that a register's view lies in the memory of a slot or in the register's own buffer: the
    /// result's buffer becomes the target's buffer. The former buffer of the target is free, because the target was
    /// unused or was an operand, which no later instruction reads.
    private func own(_ origin: Origin, of instruction: Program.Instruction, _ spare: Int) {
        let buffer: Int
        switch (origin, instruction.left, instruction.right) {
        case (.spare, _, _): buffer = spare
        case (.left, .register(let register), _): buffer = register
        case (.right, _, .register(let register)): buffer = register
        default: return
        }
        if buffer != instruction.target { swap(&buffers[buffer], &buffers[instruction.target]) }
    }

    private func operand(
        _ operand: Program.Operand, _ views: UnsafePointer<BlockView>
    ) -> BlockView {
        switch operand {
        case .slot(let slot): views[slot]
        case .register(let register): registers[register]
        }
    }

    // MARK: Operations

    private func and(_ a: BlockView, _ b: BlockView, _ spare: Int) -> Result {
        switch (a, b) {
        case (.empty, _), (_, .empty): return (.empty, .nothing)
        case (.full, _): return (b, .right)
        case (_, .full): return (a, .left)
        case (.bitmap(let x), .bitmap(let y)):
            buffers[spare].withWords { kernels.and(x, y, into: $0) }
            return bitmap(spare)
        case (.bitmap, _): return filter(b, by: a, keeping: true, spare)
        case (_, .bitmap): return filter(a, by: b, keeping: true, spare)
        default:
            return a.count <= b.count
                ? filter(a, by: b, keeping: true, spare)
                : filter(b, by: a, keeping: true, spare)
        }
    }

    private func or(_ a: BlockView, _ b: BlockView, _ spare: Int) -> Result {
        switch (a, b) {
        case (.full, _), (_, .full): return (.full, .nothing)
        case (.empty, _): return (b, .right)
        case (_, .empty): return (a, .left)
        case (.bitmap(let x), .bitmap(let y)):
            buffers[spare].withWords { kernels.or(x, y, into: $0) }
            return bitmap(spare)
        case (.bitmap, let list), (let list, .bitmap):
            if case .bitmap = a { buffers[spare].assign(a) } else { buffers[spare].assign(b) }
            buffers[spare].formUnion(list)
            return bitmap(spare)
        default:
            if a.count + b.count <= Tuning.registerListMax { return merge(a, b, spare) }
            buffers[spare].assign(a)
            buffers[spare].formUnion(b)
            return bitmap(spare)
        }
    }

    private func andNot(_ a: BlockView, _ b: BlockView, _ spare: Int) -> Result {
        switch (a, b) {
        case (.empty, _), (_, .full): return (.empty, .nothing)
        case (_, .empty): return (a, .left)
        case (.list, _), (.wideList, _): return filter(a, by: b, keeping: false, spare)
        case (.bitmap(let x), .bitmap(let y)):
            buffers[spare].withWords { kernels.andNot(x, y, into: $0) }
            return bitmap(spare)
        default:
            buffers[spare].assign(a)
            buffers[spare].subtract(b)
            return bitmap(spare)
        }
    }

    // MARK: Lists

    /// The elements of a list that are in another set (`keeping`), or that are not.
    private func filter(
        _ list: BlockView, by other: BlockView, keeping: Bool, _ spare: Int
    ) -> Result {
        // A list has at most 32,640 elements, but only a short list fits into a register.
        guard list.count <= Self.listRoom else {
            buffers[spare].assign(list)
            if keeping {
                buffers[spare].formIntersection(other)
            } else {
                buffers[spare].subtract(other)
            }
            return bitmap(spare)
        }
        let target = memory(spare)
        var count = 0
        if case .bitmap(let words) = other {
            list.forEachBit { bit in
                target.storeBytes(
                    of: UInt16(truncatingIfNeeded: bit), toByteOffset: count &* 2, as: UInt16.self)
                let isMember = BlockView.has(bit, words)
                count &+= isMember == keeping ? 1 : 0
            }
        } else {
            let end = other.count
            var at = 0
            list.forEachBit { bit in
                while at < end, other.listBit(at) < bit { at &+= 1 }
                let isMember = at < end && other.listBit(at) == bit
                target.storeBytes(
                    of: UInt16(truncatingIfNeeded: bit), toByteOffset: count &* 2, as: UInt16.self)
                count &+= isMember == keeping ? 1 : 0
            }
        }
        return listed(count, spare)
    }

    private func merge(_ a: BlockView, _ b: BlockView, _ spare: Int) -> Result {
        let target = memory(spare)
        let (aCount, bCount) = (a.count, b.count)
        var (i, j, count) = (0, 0, 0)
        while i < aCount || j < bCount {
            let x = i < aCount ? a.listBit(i) : Int.max
            let y = j < bCount ? b.listBit(j) : Int.max
            target.storeBytes(
                of: UInt16(truncatingIfNeeded: min(x, y)), toByteOffset: count &* 2,
                as: UInt16.self)
            count &+= 1
            i &+= x <= y ? 1 : 0
            j &+= y <= x ? 1 : 0
        }
        return listed(count, spare)
    }

    private func listed(_ count: Int, _ spare: Int) -> Result {
        guard count > 0 else { return (.empty, .nothing) }
        let start = UnsafePointer(memory(spare).assumingMemoryBound(to: UInt16.self))
        return (.list(UnsafeBufferPointer(start: start, count: count)), .spare)
    }

    // The buffers live as long as the combiner, and a result is valid until the next block. So addresses of a buffer
    // may leave its closure, here and nowhere else.

    private func bitmap(_ buffer: Int) -> Result { (buffers[buffer].withView { $0 }, .spare) }

    private func memory(_ buffer: Int) -> UnsafeMutableRawPointer {
        UnsafeMutableRawPointer(buffers[buffer].withWords { $0 })
    }

    /// Positions that fit into a buffer of 4096 bytes. One place is spare, because a write may follow the last kept
    /// position.
    private static let listRoom = 2040
}
