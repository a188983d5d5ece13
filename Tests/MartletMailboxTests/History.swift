// SPDX-License-Identifier: Apache-2.0
//
// A random history: every step is told to the model and to the world, and after each of them what came
// of it and what every device was sent is compared. Rests on BrokerModel and World.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore

/// What differed.
struct Difference: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// One history. Which one is all in the seed.
final class History {
    let world: World
    let model: BrokerModel
    var random: SeededGenerator
    /// By the model's number of the instance.
    var instances: [Int: Instance] = [:]
    /// The stream IDs of what devices have taken.
    var taken: [Int: Set<UInt64>] = [:]
    var nextID: UInt64 = 0
    /// The number in the message ID, by the number in the body.
    var numbers: [UInt64: UInt64] = [:]
    /// Up to when the store has heard who is connected.
    var heard: Int64
    /// Messages with an idempotency key.
    var sent: [(id: UInt64, command: SendCommand)] = []
    let topics = ["tides", "storms", "moon"]
    let apps = ["com.a", "com.b"]
    let instancesMax: Int
    let isSmall: Bool
    /// As many that connect only in the end, so that what is sent to them has a blob of recipients.
    private(set) var crowd: Int?
    private static let crowdCount = 70
    /// Steps between two looks at all rows of the history: a look costs as much as a few steps.
    private static let stepsPerCheck = 8
    private var compareCount = 0
    private(set) var story: [String] = []
    private let isTold: Bool

    init(
        _ world: World, seed: UInt64, brokenRule: EagerMailbox.BrokenRule = .none,
        isTold: Bool = false
    ) throws {
        self.world = world
        self.isTold = isTold
        heard = world.now.millisecondsSince1970
        random = SeededGenerator(seed: seed)
        isSmall = random.chance(85)
        instancesMax = random.number(1...4)
        var limits = BrokerLimits()
        // Reports are kept for longer than a history lasts.
        limits.reportSeconds = 1_000_000_000
        if isSmall {
            limits.storedPerInstanceMax = random.number(1...4)
            limits.collapseKeysPerInstanceMax = random.number(1...3)
            limits.collapsibleBurst = random.one(of: [0, 1, 2, 3])
            limits.deviceMessagesPerMinute = random.one(of: [0, 3, 4, 6, 20])
            limits.deviceMessagesPerHour = random.one(of: [0, 8, 12, 40])
        }
        try world.beginHistory(
            limits: limits, rowsMax: random.one(of: [2, 5, 1024]),
            acknowledgingBounds: Self.bounds(&random))
        model = BrokerModel(
            limits: limits, now: world.now.millisecondsSince1970, brokenRule: brokenRule)
        tell { "\(limits)" }
        try register(random.number(1...instancesMax))
        if random.chance(5) { try gather() }
    }

    /// So small that most batches of acknowledgements take several transactions; or those of production.
    private static func bounds(_ random: inout SeededGenerator) -> AcknowledgingBounds? {
        guard random.chance(40) else { return nil }
        let cost = random.number(1...4)
        var bounds = AcknowledgingBounds(
            costMax: cost, costPerProjectMax: cost, piecesPerStep: random.number(1...2))
        bounds.messagesPerPiece = UInt64(random.one(of: [1, 2, 5]))
        bounds.inboxRowsPerStep = random.number(1...3)
        bounds.singlesPerStep = random.number(1...2)
        bounds.sentCountsMax = random.number(1...2)
        return bounds
    }

    private func gather() throws {
        let all = try world.register(
            Array(repeating: (apps[0], .android), count: Self.crowdCount))
        let id = model.register(token: all[0].token.text, platform: .android, app: apps[0])
        model.instances[id]!.count = Self.crowdCount
        model.instances[id]!.topics = [topics[0]]
        instances[id] = all[0]
        crowd = id
        _ = try world.apply(
            all.map {
                .changeTopics(
                    project: $0.project, ordinal: $0.ordinal, change: .subscribe,
                    topics: [topics[0]], holder: $0.holder)
            })
        tell { "\(id) is a crowd" }
    }

    /// Those that things happen to.
    var ids: [Int] { model.ids.filter { $0 != crowd } }

    func tell(_ text: () -> String) {
        if isTold { story.append(text()) }
    }

    var now: Int64 { world.now.millisecondsSince1970 }

    func run(steps: Int) throws {
        for _ in 0..<steps {
            try step()
            try compare()
        }
        try end()
    }

    private func step() throws {
        guard !ids.isEmpty else { return try register() }
        switch random.number(0...99) {
        case ..<2 where ids.count < instancesMax: try register()
        case ..<10: try connect()
        case ..<16: try changeState()
        case ..<21: disconnect()
        case ..<23: try unregister()
        case ..<25: try rotate()
        case ..<29: try changeTopics()
        case ..<42: try acknowledge()
        case ..<58: try passTime()
        case ..<61: try crash()
        case ..<64: try cancel()
        default: try send(count: random.chance(80) ? 1 : random.number(2...6))
        }
    }

    /// Everybody connects, and gets what is left.
    private func end() throws {
        for id in model.ids { try connect(id, isDozing: false, taken: []) }
        tell { "everybody connects" }
        try compare()
        try compareReports()
        // It looks at what all histories left in the store.
        guard world.historyCount == 1 || random.chance(1) else { return }
        let report = try world.check()
        if report.problemCount > 0 { throw Difference("\(report.problems)") }
    }

    // MARK: Comparing

    func compareNow() throws { try compare() }

    private func compare() throws {
        try world.settle()
        try world.handOver()
        learnNumbers()
        for id in model.ids { try compare(id) }
        if random.chance(20) { try compareReports() }
        compareCount += 1
        if compareCount % Self.stepsPerCheck == 0, let broken = try world.brokenInvariant() {
            throw Difference(broken)
        }
        model.deliveries = [:]
        model.notices = [:]
    }

    private func compare(_ id: Int) throws {
        let frames = world.takeFrames(instances[id]!.ordinal)
        var found: [BrokerModel.Delivered] = []
        var notice: (through: UInt64, count: UInt64)?
        for frame in frames {
            switch frame {
            case .message(let streamID, let message):
                let isStored = MessageSequence(streamID).isStored
                found.append(.init(id: message, isStored: isStored))
                if isStored { taken[id, default: []].insert(streamID) }
            case .deleted(let streamID, let count):
                if notice != nil { throw Difference("\(id) is told of discarded ones twice") }
                notice = (streamID, count)
                taken[id, default: []].insert(streamID)
            }
        }
        let expected = model.deliveries[id] ?? []
        guard
            found.filter(\.isStored) == expected.filter(\.isStored),
            found.filter({ !$0.isStored }) == expected.filter({ !$0.isStored })
        else {
            throw Difference(
                "\(model.instances[id]!.mailbox) \(model.notices[id] as Any)\n"
                    + "\(id) got \(found.map(\.id)) instead of \(expected.map(\.id)): \(frames)")
        }
        guard let told = model.notices[id] else {
            if let notice { throw Difference("\(id) is told of \(notice) instead of nothing") }
            return
        }
        guard let notice else { throw Difference("\(id) is not told of \(told)") }
        let known = model.streamIDs[told.through] ?? notice.through
        model.streamIDs[told.through] = known
        guard notice.count == told.count, notice.through == known else {
            throw Difference("\(id) is told of \(notice) instead of \(told) (\(known))")
        }
    }

    /// The broker's numbers of what was accepted since.
    func learnNumbers() {
        for (id, message) in model.messages {
            guard let serial = message.serial, model.streamIDs[serial] == nil else { continue }
            model.streamIDs[serial] = world.streamIDs[id]
        }
    }
}
