// SPDX-License-Identifier: Apache-2.0
//
// The steps of the demo and their expected results. The model is as plain as possible: a set of topic names for each
// device, and a Swift closure beside the text of each condition. The model shares no rule with the engine under test.
// Pure.

import Martlet

struct DemoPlan: Sendable {
    struct Device: Sendable {
        var app: String
        var platform: Platform
        var topics: Set<String>
    }

    struct Step: Sendable {
        var target: MessageTarget
        var isExpected: @Sendable (Int, Set<String>) -> Bool
        /// Devices that are away during the send, and come back later.
        var away: Set<Int> = []

        var label: String {
            let text =
                switch target {
                case .token(let token): "token \(token.prefix(12))…"
                case .topic(let topic): "topic \(topic)"
                case .condition(let condition): condition
                case .group(let key): "group \(key.prefix(12))…"
                case .several(let targets): "\(targets.count) targets"
                }
            return away.isEmpty ? text : "\(text), \(away.count) devices away"
        }
    }

    /// Topics, each with the probability of a subscription. `bySender`: the sender subscribes the devices.
    static let topics: [(name: String, probability: Double, bySender: Bool)] = [
        ("weather", 0.6, true),
        ("tide-currents", 0.25, true),
        ("stock-GOOG", 0.1, true),
        ("industry-tech", 0.3, true),
        ("dogs", 0.4, false),
        ("cats", 0.35, false),
        ("silent", 0.05, false),
    ]

    static let apps = ["com.example.tides", "com.example.news", "com.example.pets"]
    static let unknownTopic = "nobody-is-here"

    let devices: [Device]

    init(deviceCount: Int, seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        devices = (0..<deviceCount).map { index in
            Device(
                app: Self.apps[index % 3], platform: Platform.allCases[index / 3 % 3],
                topics: Set(
                    Self.topics.filter { Double.random(in: 0..<1, using: &random) < $0.probability }
                        .map(\.name)))
        }
    }

    /// - Parameter tokens: tokens of the devices, in the order of `devices`.
    func steps(tokens: [String]) -> [Step] {
        let chosen = devices.count / 2
        let away = Set(stride(from: 3, to: devices.count, by: 10))
        return [
            Step(target: .topic("weather")) { $1.contains("weather") },
            Step(target: .topic("stock-GOOG")) { $1.contains("stock-GOOG") },
            Step(target: .topic(Self.unknownTopic)) { _, _ in false },
            Step(target: .token(tokens[chosen])) { index, _ in index == chosen },
            Step(target: .condition("'dogs' in topics && 'cats' in topics")) {
                $1.contains("dogs") && $1.contains("cats")
            },
            Step(target: .condition("'stock-GOOG' in topics || 'industry-tech' in topics")) {
                $1.contains("stock-GOOG") || $1.contains("industry-tech")
            },
            Step(
                target: .condition("'weather' in topics && ('dogs' in topics || 'cats' in topics)")
            ) {
                $1.contains("weather") && ($1.contains("dogs") || $1.contains("cats"))
            },
            Step(
                target: .condition("'dogs' in topics || 'cats' in topics && 'weather' in topics")
            ) {
                // Operators are read from left to right.
                ($1.contains("dogs") || $1.contains("cats")) && $1.contains("weather")
            },
            Step(target: .condition("'tide-currents' in topics && !('silent' in topics)")) {
                $1.contains("tide-currents") && !$1.contains("silent")
            },
            Step(target: .condition("!('weather' in topics)")) { !$1.contains("weather") },
            Step(
                target: .topic("weather"), isExpected: { $1.contains("weather") }, away: away),
        ]
    }

    func expected(_ step: Step) -> Set<Int> {
        Set(devices.indices.filter { step.isExpected($0, devices[$0].topics) })
    }

    /// Devices that `dogs || cats && weather` would select if && came first.
    var otherReading: Int {
        devices.filter {
            $0.topics.contains("dogs")
                || ($0.topics.contains("cats") && $0.topics.contains("weather"))
        }.count
    }
}
