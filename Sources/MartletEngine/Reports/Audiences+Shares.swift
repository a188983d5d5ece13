// SPDX-License-Identifier: Apache-2.0
//
// Splits a message's recipients by app, by set algebra with the apps' sets (REP-1). Rests on Audiences.

import MartletBase
import MartletBits
import MartletCondition
import MartletRows

extension Audiences {
    /// The app that all recipients have, if no set must be looked at to know; else nil.
    func onlyApp(of recipients: Recipients, in project: Project) -> AppNumber? {
        if project.nextApp.rawValue == 1 { return AppNumber(0) }
        guard case .one(let ordinal) = recipients, let lastInstance,
            lastInstance.ordinal == ordinal, lastInstance.project == project.number
        else { return nil }
        return lastInstance.app
    }

    /// How many recipients each app has.
    mutating func shares(
        of recipients: Recipients, in project: Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> [AppNumber: UInt64] {
        if let app = onlyApp(of: recipients, in: project) { return [app: recipients.count] }
        switch recipients {
        case .one(let ordinal):
            let instance = try storage.instances.instance(ordinal, in: project.number)
            return [instance?.app ?? AppNumber(0): 1]
        case .many(let set):
            // A burst of messages often has equal recipients, so the last shares are remembered.
            if let lastShares, lastShares.recipients === set { return lastShares.shares }
            let shares = try shares(of: set, in: project, storage)
            lastShares = (set, shares)
            return shares
        }
    }

    private func shares(
        of set: RecipientSet, in project: Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> [AppNumber: UInt64] {
        let apps = (0..<project.nextApp.rawValue).map { AppNumber($0) }
        var blocks = try storage.sets.blocks(of: apps.map { .app($0) }, in: project.number)
        var shares: [AppNumber: UInt64] = [:]
        for index in 0..<set.view.blockCount {
            let block = set.view.block(at: index)
            // An instance has one app, so the search ends when the apps' counts add up to the block's.
            var left = block.count
            for (slot, app) in apps.enumerated() where left > 0 {
                guard let found = blocks.nextBlock(slot: slot, from: block.block),
                    found.block == block.block
                else { continue }
                let count = block.view.intersectionCount(with: found.view)
                guard count > 0 else { continue }
                shares[app, default: 0] += UInt64(count)
                left -= count
                assert(left >= 0, "An instance belongs to one app.")
            }
        }
        try blocks.finish()
        return shares
    }
}
