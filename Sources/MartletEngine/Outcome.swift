// SPDX-License-Identifier: Apache-2.0
//
// The outcomes of commands, and the results that they tell senders and devices. Rests on the records and Fanout.

package import MartletBase
package import MartletRows

/// The outcome of a command, valid once the transaction of the command is committed. Rare and large cases are
/// indirect, because outcomes are moved from thread to thread.
package enum Outcome: Sendable {
    indirect case project(Project)
    indirect case key(ServerKey)
    case done
    indirect case registered(Instance, Project)
    case unregistered(project: ProjectNumber, ordinal: Ordinal, holder: Holder)
    /// GW-11: the bridge of an instance or the keys of a project changed.
    case bridgeChanged(BridgeNews)
    case topicsChanged(TopicChangeResult)
    /// GRP-1, GRP-2: the group after the change. A group without members is deleted.
    case group(GroupMembers)
    /// MSG-6: a message was accepted. Each variant with recipients has a fanout.
    case accepted(Acceptance, fanouts: [Fanout])
    /// REG-4: the new token of the instance.
    indirect case rotated(Token)
    /// MSG-10: a message was cancelled. The loops stop the delivery of `sequence`; nil: the message had no sequence
    /// yet.
    case cancelled(project: ProjectNumber, number: UInt64, sequence: MessageSequence?)
    /// RCP-2: the project whose senders the receipt is kept for. nil: no sender asked for the receipt, or the device
    /// had reported it before.
    case receiptKept(ProjectNumber?)
    /// UPS-1, GRP-7: a device's message was accepted. Only a message for a group has fanouts, to the other members.
    indirect case upstreamAccepted(UpstreamAcceptance, fanouts: [Fanout])
    case upstreamTaken(ProjectNumber, numbers: [UInt64])
    /// The transaction applied a part of the command. The payload is the rest, for a later transaction, and the
    /// outcome of the rest is the outcome of the command.
    case unfinished(Command)
    indirect case refused(MartletError)
}

/// MSG-6: the answer to a sender.
package struct Acceptance: Sendable, Hashable {
    /// The number in the message ID; 0 for `validateOnly`.
    package var messageNumber: UInt64
    /// 0 for a scheduled or deferred message.
    package var recipientCount: UInt64
    /// QUO-1: instances left out because of their device's quota.
    package var rateLimitedCount: UInt64
    /// STO-2: inactive recipients, for which the message was discarded at acceptance.
    package var inactiveCount: UInt64
    /// FAN-1: the place in the project's queue of deferred messages, from 1; 0: the message is not deferred.
    package var deferredPlace: UInt64
    /// Results for the members of a target group, or for single target tokens.
    package var named: NamedResults
    /// GW-9: the allowance of the only recipient; nil unless the command asks for it.
    package var allowance: DeviceAllowance?

    /// Makes an answer. By default, all counts except `recipientCount` are 0, and the target names no instance.
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

/// The results for the members of a message's target group, or for single target tokens.
package enum NamedResults: Sendable, Hashable {
    /// The target names no instance, or one.
    case none
    /// GRP-5: the results for a group's members. For a scheduled message, the count is 0 and the list is empty,
    /// because its members are those at the time of sending.
    case group(successCount: Int, failures: [GroupFailure])
    /// The results for the tokens among several targets, with their index among all targets. For a message that
    /// waits, the results are those at acceptance.
    case tokens(successCount: Int, failures: [TopicChangeResult.Failure])

    /// A member of the group that does not get the message.
    package struct GroupFailure: Sendable, Hashable {
        /// Token of the member.
        package var token: Token
        /// Reason for the failure.
        package var word: ErrorWord

        package init(token: Token, word: ErrorWord) {
            self.token = token
            self.word = word
        }
    }
}
