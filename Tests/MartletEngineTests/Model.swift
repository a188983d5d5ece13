// SPDX-License-Identifier: Apache-2.0
//
// What the engine and the store should do, said again with dictionaries and sets of names and tokens:
// no ordinals, no blocks, no shared code. Rests on the standard library, and on the engine's types
// only where something is handed over.

import EngineBench
import MartletBase
import MartletEngine

struct Model {
    struct Message {
        var sequence: UInt64
        var expires: Int64
        var from: String
        var body: [UInt8]
    }

    struct Device {
        var project: String
        var app: String
        var platform: Platform
        var topics: Set<String> = []
        var mailbox: [Message] = []
    }

    /// By token text, those that are registered.
    var devices: [String: Device] = [:]
    /// By ID: the last message's number.
    var projects: [String: UInt64] = [:]

    static func isTopicName(_ text: String) -> String? {
        var name = Substring(text)
        if name.hasPrefix("/topics/") { name = name.dropFirst(8) }
        let allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~%"
        guard !name.isEmpty, name.utf8.count <= 900, name.allSatisfy({ allowed.contains($0) })
        else { return nil }
        return String(name)
    }

    func subscribers(of topic: String, in project: String) -> Set<String> {
        Set(devices.filter { $0.value.project == project && $0.value.topics.contains(topic) }.keys)
    }

    func topics(in project: String) -> [String: Int] {
        var counts: [String: Int] = [:]
        for device in devices.values where device.project == project {
            for topic in device.topics { counts[topic, default: 0] += 1 }
        }
        return counts
    }

    func matching(_ condition: Expression, in project: String) -> Set<String> {
        Set(
            devices.filter { $0.value.project == project && condition.holds($0.value.topics) }.keys)
    }
}

/// A condition as a tree, with its text and its meaning.
indirect enum Expression {
    case topic(String)
    case not(Expression)
    /// `first op next op next`, strictly from left to right.
    case chain(Expression, [(isAnd: Bool, Expression)])

    var text: String {
        switch self {
        case .topic(let name): "'\(name)' in topics"
        case .not(let part): "!(\(part.text))"
        case .chain(let first, let rest):
            rest.reduce("(" + first.text + ")") { text, next in
                text + (next.isAnd ? " && " : "||") + "(" + next.1.text + ")"
            }
        }
    }

    func holds(_ topics: Set<String>) -> Bool {
        switch self {
        case .topic(let name): topics.contains(name)
        case .not(let part): !part.holds(topics)
        case .chain(let first, let rest):
            rest.reduce(first.holds(topics)) { value, next in
                let other = next.1.holds(topics)
                return next.isAnd ? value && other : value || other
            }
        }
    }

    var names: Set<String> {
        switch self {
        case .topic(let name): [name]
        case .not(let part): part.names
        case .chain(let first, let rest): rest.reduce(first.names) { $0.union($1.1.names) }
        }
    }

    static func random(
        of names: [String], depth: Int, _ random: inout SeededGenerator
    ) -> Expression {
        guard depth > 0, random.chance(70) else {
            return .topic(names.randomElement(using: &random)!)
        }
        if random.chance(30) { return .not(.random(of: names, depth: depth - 1, &random)) }
        let first = Expression.random(of: names, depth: depth - 1, &random)
        var rest: [(isAnd: Bool, Expression)] = []
        for _ in 0..<random.number(1...3) {
            rest.append((random.chance(50), .random(of: names, depth: depth - 1, &random)))
        }
        return .chain(first, rest)
    }
}
