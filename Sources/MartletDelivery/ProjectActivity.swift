// SPDX-License-Identifier: Apache-2.0
//
// Whether a project has a loop to itself. Deferrable work, such as mailbox readings, then goes at full speed
// (FAN-4). Where other projects have messages, the work rests now and then, because messages go first. Rests on
// MartletBase.

import MartletBase
import MartletEngine

/// The two projects with the latest messages on a loop.
struct ProjectActivity {
    /// How long after its last message a project counts as active.
    private static let activeMilliseconds: Int64 = 100

    private struct Sight {
        var project = ProjectNumber(0)
        var until = Int64.min
    }

    private var latest = Sight()
    /// The latest project other than `latest.project`.
    private var other = Sight()

    mutating func note(_ project: ProjectNumber, _ now: Instant) {
        if project != latest.project {
            other = latest
            latest.project = project
        }
        latest.until = now.millisecondsSince1970 + Self.activeMilliseconds
    }

    func hasOthers(than project: ProjectNumber, _ now: Instant) -> Bool {
        let sight = latest.project == project ? other : latest
        return now.millisecondsSince1970 < sight.until
    }
}
