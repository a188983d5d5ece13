// SPDX-License-Identifier: Apache-2.0
//
// Tells whether a project has a loop to itself. If so, work that can wait, such as mailbox readings, goes at full speed
// (FAN-4). If others have messages it rests now and then, because messages go first. Rests on MartletBase.

import MartletBase
import MartletEngine

/// The two projects that last had messages on a loop.
struct ProjectActivity {
    /// A project counts as active for so long after its last message.
    private static let activeMilliseconds: Int64 = 100

    private struct Sight {
        var project = ProjectNumber(0)
        var until = Int64.min
    }

    private var latest = Sight()
    /// The last one other than `latest.project`.
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
