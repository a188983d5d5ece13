// SPDX-License-Identifier: Apache-2.0
//
// A store that goes on from an earlier state than devices know: that of a backup, or of the furthest node when
// the log is lost. Devices know sequences of messages that were accepted later and are lost, and a second message with
// such a sequence would be taken for a repetition. So the sequences of messages go on far behind. Rests on Store.

import MartletBase
import MartletEngine
import MartletRows

extension Store {
    /// Sequences left out behind the last message of a project: more than a project can accept between a backup and
    /// its restore, a million messages a second for an hour or a thousand for 49 days.
    private static let sequenceGap: UInt64 = 1 << 32
    /// Projects of a transaction.
    private static let projectsPerTransaction = 1000

    /// Leaves out sequences of messages in all projects.
    /// - Returns: the ID of a project without so many sequences; nil: they are left out.
    package func leaveOutSequences() throws -> String? {
        var last = ""
        while true {
            let after = last
            let page = try read { (transaction) throws in
                try transaction.projects.projects(
                    after: after, limit: Self.projectsPerTransaction)
            }
            guard let end = page.last else { return nil }
            last = end.id
            for project in page {
                let (sequence, isTooHigh) = project.lastSequence.rawValue
                    .addingReportingOverflow(Self.sequenceGap)
                guard !isTooHigh, MessageSequence(sequence).isStored else { return project.id }
            }
            try write { (transaction) throws(StorageError) in
                for project in page {
                    var project = project
                    project.lastSequence = MessageSequence(
                        project.lastSequence.rawValue + Self.sequenceGap)
                    try transaction.projects.put(project, isNew: false)
                }
            }
        }
    }
}
