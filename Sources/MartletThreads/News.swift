// SPDX-License-Identifier: Apache-2.0
//
// What is told about a command once its transaction is committed. One switch makes the news from an outcome. The loops of this
// process take it from the committer, and the loops of other nodes from the row, whose events are the same news in
// bytes (OPS-7). Rests on the engine's outcomes.

package import MartletBase
package import MartletEngine
package import MartletRows

/// News for every loop of a broker, on all nodes.
package enum News: Sendable {
    case fanout(Fanout)
    /// FAN-2: the new weight of a project.
    case weight(ProjectNumber, Int)
    /// NET-4: an instance has connected. Its earlier connections end.
    case connected(ProjectNumber, Ordinal, connectionNumber: UInt64)
    /// An instance was unregistered, so its connection ends.
    case disconnect(ProjectNumber, Ordinal, Holder?)
    /// MSG-10: a message was cancelled, and no further session gets the message.
    case cancel(ProjectNumber, MessageSequence)
    /// RCP-1: new receipts wait for the project's senders.
    case receipts(ProjectNumber)
    /// REG-9: a sender credential was revoked.
    case revoked(keyID: String)
}

/// The news of outcomes, by who hears of it.
package struct OutcomeNews {
    /// For the loops. The fanouts of an outcome come first.
    package var loops: [News] = []
    /// GW-11: for the door to push services, on the node that applied the command.
    package var door: [BridgeNews] = []
    /// UPS-1: for that node's book of devices' messages.
    package var upstream: [UpstreamNews] = []

    package enum UpstreamNews {
        case accepted(UpstreamAcceptance)
        case taken(ProjectNumber, numbers: [UInt64])
    }

    package init() {}

    /// - Parameter command: the outcome's command; nil for due work.
    package mutating func add(_ outcome: Outcome, of command: Command? = nil) {
        switch outcome {
        case .accepted(_, let fanouts): begin(fanouts)
        case .upstreamAccepted(let acceptance, let fanouts):
            upstream.append(.accepted(acceptance))
            begin(fanouts)
        case .upstreamTaken(let project, let numbers):
            upstream.append(.taken(project, numbers: numbers))
        case .project(let project): loops.append(.weight(project.number, project.weight))
        case .registered(let instance, _):
            if case .register(let new) = command, new.bridging != nil {
                door.append(.instance(instance.project, instance.ordinal))
            }
        case .unregistered(let project, let ordinal, let holder):
            loops.append(.disconnect(project, ordinal, holder))
            door.append(.unregistered(project, ordinal))
        case .bridgeChanged(let news): door.append(news)
        case .cancelled(let project, _, let sequence):
            if let sequence { loops.append(.cancel(project, sequence)) }
        case .receiptKept(let project): if let project { loops.append(.receipts(project)) }
        case .key, .done:
            if case .connected(let project, let ordinal, _, let connection)? = command {
                loops.append(
                    .connected(project, ordinal, connectionNumber: connection.number))
            } else if case .revokeKey(_, let keyID)? = command {
                loops.append(.revoked(keyID: keyID))
            } else if case .revokeServiceAccount(_, let keyID)? = command {
                loops.append(.revoked(keyID: keyID))
            }
        // The rest of an unfinished command has the news.
        case .unfinished, .refused, .topicsChanged, .group, .rotated: break
        }
    }

    private mutating func begin(_ fanouts: [Fanout]) {
        for fanout in fanouts { loops.append(.fanout(fanout)) }
    }
}
