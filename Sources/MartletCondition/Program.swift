// SPDX-License-Identifier: Apache-2.0
//
// The bytecode of a condition: three-address instructions over sets. There is no instruction for
// `!`. The compiler carries complements along and De Morgan's laws turn every operator into `and`,
// `or` or `andNot`, none of which makes something out of nothing; so all sets stay as small as
// their operands, empty blocks stay empty, and at most once, at the very end, something is taken
// from the universe. Rests on nothing.

/// Compiled code of one condition.
public struct Program: Sendable, Hashable {
    /// Where an operand comes from.
    public enum Operand: Sendable, Hashable, CustomStringConvertible {
        /// The set of a slot: a topic, or the universe behind the last topic.
        case slot(Int)
        /// The result of an earlier instruction.
        case register(Int)

        public var description: String {
            switch self {
            case .slot(let slot): "s\(slot)"
            case .register(let register): "r\(register)"
            }
        }
    }

    public enum Operation: UInt8, Sendable, Hashable {
        /// In both.
        case and
        /// In one or both.
        case or
        /// In the left, not in the right.
        case andNot
    }

    public struct Instruction: Sendable, Hashable, CustomStringConvertible {
        public var operation: Operation
        public var left: Operand
        public var right: Operand
        /// Register written; may be one of the operands.
        public var target: Int

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

    public let instructions: [Instruction]
    /// What the condition selects, after all instructions.
    public let result: Operand
    /// Topics; the universe is the slot of this number.
    public let topicCount: Int
    /// Registers used.
    public let registerCount: Int
    /// Whether the universe is read, which is so exactly if an instance without any subscription
    /// matches.
    public let usesUniverse: Bool
    /// Slots outside of which nothing can match, found by looking at the operators only.
    public let necessarySlots: [Int]
}

extension Program: CustomStringConvertible {
    /// One instruction a line.
    public var description: String {
        (instructions.map(\.description) + ["return \(result)"]).joined(separator: "\n")
    }
}
