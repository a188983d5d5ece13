// SPDX-License-Identifier: Apache-2.0
//
// Who a target means (CON-5), and what is remembered of the last one: a burst of messages to one topic
// reads its subscribers once, and loops see by the very same set that the messages are for the same
// instances. The committer has a value of its own and forgets it with any command that may change a
// set; a loop that sends by itself has another one (LiveSender). Rests on the ledgers and MartletCondition.

import MartletBase
import MartletBits
import MartletRows

/// Turns targets into sets of instances.
struct Audiences: ~Copyable {
    let programs: SharedPrograms
    let limits: MailboxLimits
    /// The subscribers of the topic that was sent to last.
    var lastTopic: TopicAudience?
    /// REP-1: how many of the recipients of the last message have each app.
    var lastShares: (recipients: RecipientSet, shares: [AppNumber: UInt64])?
    /// The instance that the last token meant.
    var lastInstance: Instance?
    /// How devices know the last project: the same as long as that is there.
    private var lastSender: (project: ProjectNumber, text: String)?

    init(programs: SharedPrograms, limits: MailboxLimits) {
        self.programs = programs
        self.limits = limits
    }

    /// What a message of the project's is from, unless that is a topic.
    mutating func sender(of project: Project) -> String {
        if let lastSender, lastSender.project == project.number { return lastSender.text }
        let text = String(project.senderID)
        lastSender = (project.number, text)
        return text
    }

    /// Some set may be another one from now on.
    mutating func forget() {
        lastTopic = nil
        lastShares = nil
        lastInstance = nil
    }
}
