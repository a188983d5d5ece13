// SPDX-License-Identifier: Apache-2.0
//
// Conditions of the broker that an operator must act on, with what to do (OPS-10). The bounds are those of the alerts for
// Prometheus. Pure.

import MartletAnswers

/// A condition that holds now.
struct Alert: Encodable, Sendable {
    var name: String
    var message: String
    /// What to do.
    var remedy: String

    /// Half of the places for commands.
    private static let commandsWaitingMax: UInt64 = 32_768
    private static let diskFreeShareMin = 0.15
    private static let journalSecondsMax = 0.05
    private static let commitSecondsMax = 0.25

    static func all(in status: StatusAnswer) -> [Alert] {
        var alerts: [Alert] = []
        func add(_ name: String, _ message: String, _ remedy: String) {
            alerts.append(Alert(name: name, message: message, remedy: remedy))
        }
        switch status.storeState {
        case .ok: break
        case .refusing:
            add(
                "MartletStoreRefusing", "The store refuses changes.",
                "Read the log of the broker; check the disk, and run `martlet check`.")
        case .diskShort:
            add(
                "MartletDiskShort", "The disk is full: no new message is taken.",
                "Free room on the disk of the data folder. The broker then goes on.")
        }
        if status.diskBytes > 0,
            Double(status.diskFreeBytes) / Double(status.diskBytes) < diskFreeShareMin
        {
            add(
                "MartletDiskFilling", "The disk is more than 85 % full.",
                "Free room, or move the data folder to a larger disk.")
        }
        if status.journalWrite.p99 ?? 0 > journalSecondsMax {
            add(
                "MartletDiskSlow", "Writes to the journal take long.",
                "Look for another load on the disk, or use a faster disk.")
        }
        if status.commit.p99 ?? 0 > commitSecondsMax {
            add(
                "MartletCommitsSlow", "Transactions take long.",
                "Look at the commands that wait, and at the disk.")
        }
        if status.commandsWaiting > commandsWaitingMax {
            add(
                "MartletCommandsWaiting", "Half of the places for commands are taken.",
                "Let senders wait between requests, or give the broker a faster disk.")
        }
        let deferred = status.projects.filter { $0.fanoutsDeferred > 0 }.map(\.project)
        if !deferred.isEmpty {
            add(
                "MartletFanoutsDeferred",
                "Messages to many wait for room: \(deferred.prefix(5).joined(separator: ", ")).",
                "Nothing, if it passes. Otherwise cancel messages, or change the weights.")
        }
        return alerts
    }
}
