// SPDX-License-Identifier: Apache-2.0
//
// Works out targets (CON-5) and remembers the last one, so that a burst of messages to one topic reads its subscribers only
// once. By the identity of the remembered set, loops recognise messages that have the same recipients. The committer's
// engine has one of these, and forgets the sets before any command that can change one. Each NowOrNeverSender has its own.
// Rests on the ledgers and MartletCondition.

import MartletBase
import MartletBits
import MartletRows

/// Turns targets into sets of instances.
struct Audiences: ~Copyable {
    let programs: SharedPrograms
    var limits: BrokerLimits
    /// Projects whose keys a push service refuses (GW-11).
    let bridgeFaults: BridgeFaults
    /// The last topic that was sent to, and its subscribers.
    var lastTopic: TopicAudience?
    /// The last message's recipients, counted by app (REP-1).
    var lastShares: (recipients: RecipientSet, shares: [AppNumber: UInt64])?
    /// The last token's instance.
    var lastInstance: Instance?
    /// The last project's sender ID, in decimal. It never changes.
    private var lastSender: (project: ProjectNumber, text: String)?

    init(
        programs: SharedPrograms, limits: BrokerLimits,
        bridgeFaults: BridgeFaults = BridgeFaults()
    ) {
        self.programs = programs
        self.limits = limits
        self.bridgeFaults = bridgeFaults
    }

    /// The `from` of messages that don't go to a topic.
    mutating func sender(of project: Project) -> String {
        if let lastSender, lastSender.project == project.number { return lastSender.text }
        let text = String(project.senderID)
        lastSender = (project.number, text)
        return text
    }

    /// Forgets the sets, because one may change.
    mutating func forget() {
        lastTopic = nil
        lastShares = nil
        lastInstance = nil
    }
}
