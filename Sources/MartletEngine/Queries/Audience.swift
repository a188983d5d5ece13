// SPDX-License-Identifier: Apache-2.0
//
// Counts the instances that a condition selects, and explains why (CON-8, CON-9). It evaluates a condition just as a send
// does, on a snapshot, without sending. Rests on the ledgers and MartletCondition.

package import MartletBase
import MartletBits
package import MartletCondition
package import MartletRows

/// Exact counts of the instances that a condition selects.
package struct Audience: Sendable, Hashable {
    /// Number of selected instances of one app.
    package struct AppCount: Sendable, Hashable {
        /// App of the instances.
        package var app: App
        /// Selected instances of the app.
        package var count: UInt64
    }

    /// Selected instances.
    package var total: UInt64 = 0
    /// Selected instances by platform. A platform without selected instances is absent.
    package var perPlatform: [Platform: UInt64] = [:]
    /// Apps with at least one selected instance.
    package var perApp: [AppCount] = []

    /// Counts the instances that a condition selects.
    /// - Parameter limits: the broker's limits.
    /// - Throws: `MartletError` for an invalid condition, `StorageError`.
    package init(
        of text: String, in number: ProjectNumber, _ programs: SharedPrograms,
        limits: BrokerLimits = BrokerLimits(), _ storage: borrowing Transaction
    ) throws {
        let project = try Self.project(number, storage)
        let condition = try programs.condition(
            parsing: text, topicsMax: project.conditionTopicsMax(limits))
        var apps: [App] = []
        for app in 0..<project.nextApp.rawValue {
            if let app = try storage.projects.app(AppNumber(app), in: number) { apps.append(app) }
        }
        let slots = try Audiences.slots(of: condition, in: number, storage)
        let blocks = try storage.sets.blocks(of: slots, in: number)
        var evaluator = ConditionEvaluator(condition, source: blocks)
        var appBlocks = try storage.sets.blocks(of: apps.map { .app($0.number) }, in: number)
        var counts = [UInt64](repeating: 0, count: apps.count)
        while let result = evaluator.next() {
            total += UInt64(result.count)
            // An instance has one app, and so one platform. Stop when the apps' counts add up to the block's.
            var left = result.count
            for index in apps.indices where left > 0 {
                guard let next = appBlocks.nextBlock(slot: index, from: result.block),
                    next.block == result.block
                else { continue }
                let found = next.view.intersectionCount(with: result.view)
                counts[index] += UInt64(found)
                left -= found
            }
        }
        try blocks.finish()
        try appBlocks.finish()
        for (app, count) in zip(apps, counts) where count > 0 {
            perPlatform[app.platform, default: 0] += count
            perApp.append(AppCount(app: app, count: count))
        }
    }

    static func project(
        _ number: ProjectNumber, _ storage: borrowing Transaction
    ) throws -> Project {
        guard let project = try storage.projects.project(number) else {
            throw MartletError.noProject
        }
        return project
    }

    /// The parts of a condition, with the number of instances of each part (CON-9).
    /// - Parameter limits: the broker's limits.
    /// - Throws: `MartletError` for an invalid condition, `StorageError`.
    package static func explain(
        _ text: String, in number: ProjectNumber, _ programs: SharedPrograms,
        limits: BrokerLimits, _ storage: borrowing Transaction
    ) throws -> Explanation {
        let project = try project(number, storage)
        let condition = try programs.condition(
            parsing: text, topicsMax: project.conditionTopicsMax(limits))
        var known: Set<TopicName> = []
        for name in condition.topics where try storage.topics.topic(named: name, in: number) != nil
        {
            known.insert(name)
        }
        // The parts are counted before `Explanation` is made, because a closure cannot capture a borrowed snapshot.
        var counts: [String: UInt64] = [:]
        for index in condition.syntaxTree.nodes.indices {
            let part = condition.part(at: index)
            guard counts[part.text] == nil else { continue }
            counts[part.text] = try count(part, in: number, storage)
        }
        counts[condition.text] = try count(condition, in: number, storage)
        return Explanation(
            of: condition, isKnown: { known.contains($0) }, count: { counts[$0.text] ?? 0 })
    }

    static func count(
        _ condition: Condition, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> UInt64 {
        let slots = try Audiences.slots(of: condition, in: number, storage)
        let blocks = try storage.sets.blocks(of: slots, in: number)
        var evaluator = ConditionEvaluator(condition, source: blocks)
        let count = evaluator.count()
        try blocks.finish()
        return count
    }
}
