// SPDX-License-Identifier: Apache-2.0
//
// What became of commands, and the results that senders and devices are told. Rests on the records and Fanout.

package import MartletBase
package import MartletRows

/// What became of a command, valid once its transaction is committed. Rare and large cases are indirect, because
/// outcomes move from thread to thread.
package enum Outcome: Sendable {
    indirect case project(Project)
    indirect case key(ServerKey)
    case done
    indirect case registered(Instance, Project)
    case unregistered(project: ProjectNumber, ordinal: Ordinal, holder: Holder)
    /// An instance's bridge or a project's keys changed (GW-11).
    case bridgeChanged(BridgeNews)
    case topicsChanged(TopicChangeResult)
    /// The group after the change (GRP-1, GRP-2). Without members it is deleted.
    case group(GroupMembers)
    /// A message was accepted (MSG-6). Each variant that has recipients has a fanout.
    case accepted(Acceptance, fanouts: [Fanout])
    /// The new token of the instance (REG-4).
    indirect case rotated(Token)
    /// A message was cancelled (MSG-10). The loops stop delivering `sequence`; nil if it had none yet.
    case cancelled(project: ProjectNumber, number: UInt64, sequence: MessageSequence?)
    /// Whose senders the receipt is kept for (RCP-2); nil if no sender asked for it, or the device had reported it
    /// before.
    case receiptKept(ProjectNumber?)
    /// A device's message was accepted (UPS-1). Only one for a group has fanouts, to the other members (GRP-7).
    indirect case upstreamAccepted(UpstreamAcceptance, fanouts: [Fanout])
    case upstreamTaken(ProjectNumber, numbers: [UInt64])
    /// The transaction applied only a part. This is the rest, for a later transaction, and its outcome is the
    /// command's.
    case unfinished(Command)
    indirect case refused(MartletError)
}

/// The answer to a sender (MSG-6).
package struct Acceptance: Sendable, Hashable {
    /// The number in the message ID; 0 for `validateOnly`.
    package var messageNumber: UInt64
    /// 0 for a scheduled or deferred message.
    package var recipientCount: UInt64
    /// Instances left out because of their device's quota (QUO-1).
    package var rateLimitedCount: UInt64
    /// Inactive recipients, for whom the message was discarded at once (STO-2).
    package var inactiveCount: UInt64
    /// The place in the project's queue of deferred messages, from 1; 0: it isn't deferred (FAN-1).
    package var deferredPlace: UInt64
    /// Results for the members of a target group, or for single tokens.
    package var named: NamedResults
    /// The only recipient's allowance; nil unless the command asks for it (GW-9).
    package var allowance: DeviceAllowance?

    /// Makes an answer. By default all counts but `recipientCount` are 0, and the target names no instance.
    package init(
        messageNumber: UInt64, recipientCount: UInt64, rateLimitedCount: UInt64 = 0,
        inactiveCount: UInt64 = 0, deferredPlace: UInt64 = 0, named: NamedResults = .none
    ) {
        self.messageNumber = messageNumber
        self.recipientCount = recipientCount
        self.rateLimitedCount = rateLimitedCount
        self.inactiveCount = inactiveCount
        self.deferredPlace = deferredPlace
        self.named = named
    }
}

/// The results for the members of a message's target group, or for single tokens.
package enum NamedResults: Sendable, Hashable {
    /// The target names no instance, or one.
    case none
    /// The results for a group's members (GRP-5). Empty for a scheduled message, whose members are those at the time of
    /// sending.
    case group(successCount: Int, failures: [GroupFailure])
    /// The results for the tokens among several targets, each with its index among all targets. If the message waits,
    /// they are those at acceptance.
    case tokens(successCount: Int, failures: [TopicChangeResult.Failure])

    /// A member that doesn't get the message.
    package struct GroupFailure: Sendable, Hashable {
        /// Its token.
        package var token: Token
        /// Why it doesn't.
        package var word: ErrorWord

        package init(token: Token, word: ErrorWord) {
            self.token = token
            self.word = word
        }
    }
}
