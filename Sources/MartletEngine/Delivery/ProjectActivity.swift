// SPDX-License-Identifier: Apache-2.0
//
// Whether a project has a loop to itself: what can wait goes at full speed then (FAN-4), and rests now
// and then where others have messages, which go first. Rests on MartletBase.

import MartletBase

/// Whose messages came to a loop last.
struct ProjectActivity {
    /// How long after its last message a project counts as active.
    private static let activeMilliseconds: Int64 = 100

    private struct Sight {
        var project = ProjectNumber(0)
        var until = Int64.min
    }

    private var latest = Sight()
    /// The latest of any other project.
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
