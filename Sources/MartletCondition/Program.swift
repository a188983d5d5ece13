// SPDX-License-Identifier: Apache-2.0
//
// The bytecode of a condition: three-address instructions over sets. The code has no instruction for `!`. The
// compiler carries complements along, and De Morgan's laws turn every operator into `and`, `or` or `andNot`. None
// of the three operations creates members, so sets stay as small as their operands and empty blocks stay empty. At
// most once, at the very end, a set is subtracted from the universe. Rests on nothing.

/// The compiled code of one condition.
public struct Program: Sendable, Hashable {
    /// The source of an operand.
    public enum Operand: Sendable, Hashable, CustomStringConvertible {
        /// The set of a slot. Slots are the topics in order, and then the universe.
        case slot(Int)
        /// The result of an earlier instruction.
        case register(Int)

        /// `s` or `r`, and the number of the slot or of the register.
        public var description: String {
            switch self {
            case .slot(let slot): "s\(slot)"
            case .register(let register): "r\(register)"
            }
        }
    }

    /// The operation of an instruction on two sets.
    public enum Operation: UInt8, Sendable, Hashable {
        /// The members of both operands.
        case and
        /// The members of either operand.
        case or
        /// The members of the left operand that the right operand lacks.
        case andNot
    }

    /// A step of a program: `target = left operation right`.
    public struct Instruction: Sendable, Hashable, CustomStringConvertible {
        /// The operation on the two operands.
        public var operation: Operation
        /// The first operand.
        public var left: Operand
        /// The second operand; for `andNot`, the set whose members are removed.
        public var right: Operand
        /// The register that receives the result; may be one of the operands.
        public var target: Int

        /// The instruction as text, such as `r0 = s0 &~ s1`.
        public var description: String {
            let sign =
                switch operation {
                case .and: "&"
                case .or: "|"
                case .andNot: "&~"
                }
            return "r\(target) = \(left) \(sign) \(right)"
        }
    }

    /// The steps, in the order of their execution.
    public let instructions: [Instruction]
    /// The operand that holds the condition's members after all instructions.
    public let result: Operand
    /// The number of topics, and the slot of the universe.
    public let topicCount: Int
    /// The number of registers.
    public let registerCount: Int
    /// Whether the program reads the universe: exactly if an instance without any subscription matches.
    let usesUniverse: Bool
    /// Slots outside of which nothing can match, derived from the operators alone.
    public let necessarySlots: [Int]
}

extension Program: CustomStringConvertible {
    /// The instructions as text, one per line.
    public var description: String {
        (instructions.map(\.description) + ["return \(result)"]).joined(separator: "\n")
    }
}
