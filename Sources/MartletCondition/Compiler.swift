// SPDX-License-Identifier: Apache-2.0
//
// Compiles a tree to bytecode. Every node becomes an operand and a flag for its complement:
//
//      a &  b =  (a and b)          a |  b =   (a or b)
//      a & ~b =  (a andNot b)       a | ~b = ~ (b andNot a)
//     ~a &  b =  (b andNot a)      ~a |  b = ~ (a andNot b)
//     ~a & ~b = ~(a or b)          ~a | ~b = ~ (a and b)
//
// A complement that remains at the root is taken from the universe. The operand that needs more registers is
// computed first, so n terms need at most log2(n) + 1 registers at any nesting. Rests on `SyntaxTree` and
// `Program`.

/// Compiles trees.
enum Compiler {
    /// An operand, with a flag for its complement.
    private struct Value {
        var operand: Program.Operand
        var isComplement: Bool
        /// Slots outside of which the operand (not its complement) is empty.
        var necessary: Set<Int>
    }

    static func compile(_ tree: SyntaxTree) -> Program {
        let needs = registerNeeds(tree)
        var values = [Value?](repeating: nil, count: tree.nodes.count)
        var code: [Program.Instruction] = []
        var free: [Int] = []
        var registerCount = 0

        func register() -> Int {
            if let register = free.popLast() { return register }
            registerCount += 1
            return registerCount - 1
        }
        func emit(_ operation: Program.Operation, _ left: Value, _ right: Value) -> Value {
            for value in [left, right] {
                if case .register(let register) = value.operand { free.append(register) }
            }
            let target = register()
            code.append(
                Program.Instruction(
                    operation: operation, left: left.operand, right: right.operand,
                    target: target))
            let necessary =
                switch operation {
                case .and: left.necessary.union(right.necessary)
                case .or: left.necessary.intersection(right.necessary)
                case .andNot: left.necessary
                }
            return Value(
                operand: .register(target), isComplement: false, necessary: necessary)
        }
        func complement(_ value: Value) -> Value {
            var value = value
            value.isComplement.toggle()
            return value
        }
        /// `a & b` for operands with or without complement.
        func and(_ a: Value, _ b: Value) -> Value {
            switch (a.isComplement, b.isComplement) {
            case (false, false): emit(.and, a, b)
            case (false, true): emit(.andNot, a, b)
            case (true, false): emit(.andNot, b, a)
            case (true, true): complement(emit(.or, a, b))
            }
        }

        // Depth first over an explicit stack. A node with unfinished operands stays on the stack.
        var stack = [tree.rootIndex]
        while let index = stack.last {
            switch tree.nodes[index].kind {
            case .topic(let slot):
                values[index] = Value(
                    operand: .slot(slot), isComplement: false, necessary: [slot])
            case .not(let operand):
                guard let value = values[operand] else {
                    stack.append(operand)
                    continue
                }
                values[index] = complement(value)
            case .and(let left, let right), .or(let left, let right):
                guard let a = values[left], let b = values[right] else {
                    let leftFirst = needs[left] >= needs[right]
                    let order = leftFirst ? [left, right] : [right, left]
                    stack.append(order.first { values[$0] == nil }!)
                    continue
                }
                if case .and = tree.nodes[index].kind {
                    values[index] = and(a, b)
                } else {
                    values[index] = complement(and(complement(a), complement(b)))
                }
            }
            stack.removeLast()
        }

        let universe = tree.topics.count
        var root = values[tree.rootIndex]!
        let usesUniverse = root.isComplement
        if usesUniverse {
            let all = Value(
                operand: .slot(universe), isComplement: false, necessary: [universe])
            root = emit(.andNot, all, root)
        }
        return Program(
            instructions: code, result: root.operand, topicCount: tree.topics.count,
            registerCount: registerCount, usesUniverse: usesUniverse,
            necessarySlots: root.necessary.sorted())
    }

    /// The registers that each node needs, by the rule of Sethi and Ullman.
    private static func registerNeeds(_ tree: SyntaxTree) -> [Int] {
        tree.fold(
            topic: { _ in 0 }, not: { $0 },
            and: { $0 == $1 ? $0 + 1 : max($0, $1) },
            or: { $0 == $1 ? $0 + 1 : max($0, $1) })
    }
}
