// SPDX-License-Identifier: Apache-2.0
//
// Resolves targets (CON-5), and remembers the last target. A burst of messages to one topic reads its subscribers
// once. Loops recognise messages for equal recipients by the identity of the remembered set. The committer's engine
// has one value, and forgets the sets before each command that can change a set. Each live sender has a value of its
// own (LiveSender). Rests on the ledgers and MartletCondition.

import MartletBase
import MartletBits
import MartletRows

/// Turns targets into sets of instances.
struct Audiences: ~Copyable {
    let programs: SharedPrograms
    var limits: MailboxLimits
    /// GW-11: projects whose keys a push service refuses.
    let bridgeFaults: BridgeFaults
    /// The topic of the last message to a topic, with its subscribers.
    var lastTopic: TopicAudience?
    /// REP-1: the recipients of the last message, and their number by app.
    var lastShares: (recipients: RecipientSet, shares: [AppNumber: UInt64])?
    /// The instance of the last token.
    var lastInstance: Instance?
    /// The last project's sender ID, in decimal. A project's sender ID never changes.
    private var lastSender: (project: ProjectNumber, text: String)?

    init(
        programs: SharedPrograms, limits: MailboxLimits,
        bridgeFaults: BridgeFaults = BridgeFaults()
    ) {
        self.programs = programs
        self.limits = limits
        self.bridgeFaults = bridgeFaults
    }

    /// The `from` of the project's messages to targets other than topics.
    mutating func sender(of project: Project) -> String {
        if let lastSender, lastSender.project == project.number { return lastSender.text }
        let text = String(project.senderID)
        lastSender = (project.number, text)
        return text
    }

    /// Forgets the remembered sets, because a set may change.
    mutating func forget() {
        lastTopic = nil
        lastShares = nil
        lastInstance = nil
    }
}
