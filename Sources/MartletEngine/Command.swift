// SPDX-License-Identifier: Apache-2.0
//
// Commands to the engine. A command changes state, and the one writer applies it; questions are in Queries. Random values and
// secrets are made before, so the same commands always lead to the same state. A command's result is an Outcome. Rests on
// the records.

package import MartletBase
package import MartletRows

/// A change of state. Indirect, because a command changes hands five times, and this way its payload stays in place.
package indirect enum Command: Sendable {
    /// Creates a project with a registration policy (REG-7). `key` is the project's first registration key. 0 topics
    /// per condition leave the broker's value in force (CON-3).
    case createProject(
        id: String, senderID: UInt64, conditionTopicsMax: Int,
        registration: RegistrationPolicy = .key, key: NewKey? = nil)
    /// Changes a project's settings (FAN-1, FAN-2, CON-3); nil leaves one unchanged.
    case changeProject(
        id: String, weight: Int? = nil, overload: OverloadPolicy? = nil,
        conditionTopicsMax: Int? = nil)
    case createKey(project: String, key: NewKey)
    case revokeKey(project: String, keyID: String)
    /// Adds the public key of a service account (REG-5). The key pair is made where the private key stays.
    case createServiceAccount(project: String, key: NewServiceAccountKey)
    case revokeServiceAccount(project: String, keyID: String)
    /// Changes a project's policies, keys or apps (REG-7, REG-8).
    case changeRegistry(project: String, RegistryChange)
    case register(NewInstance)
    /// Changes where a push service reaches an instance, or a project's keys for push services (GW-11).
    case changeBridge(BridgeChange)
    /// Unregisters an instance; if a holder is given, only while the ordinal belongs to it.
    case unregister(project: ProjectNumber, ordinal: Ordinal, holder: Holder? = nil)
    /// A sender unregisters the instance that has the token (REG-3).
    case unregisterToken(project: ProjectNumber, token: String)
    /// A device changes its own subscriptions; if a holder is given, only while the ordinal belongs to it (TOP-5).
    case changeTopics(
        project: ProjectNumber, ordinal: Ordinal, change: TopicOperation, topics: [String],
        holder: Holder? = nil)
    /// A sender changes one topic for many tokens, in one transaction or in several (TOP-4).
    case changeTopic(
        project: ProjectNumber, topic: String, change: TopicOperation, tokens: [String],
        progress: TopicChangeProgress = TopicChangeProgress())
    /// Makes a group (GRP-1). The broker makes the key before the command reaches the engine.
    case createGroup(project: ProjectNumber, name: String, key: GroupKey, tokens: [String])
    /// Changes a group (GRP-2). `name` and `key` must belong to the same group.
    case changeGroup(
        project: ProjectNumber, name: String, key: String, change: GroupOperation,
        tokens: [String])
    case send(project: ProjectNumber, message: SendCommand)
    /// Acknowledgements of a loop's devices, with the counts of messages that the loop queued since its last report
    /// (TTL-4, REP-1).
    case acknowledge([Acknowledgement], sent: [SentCount] = [])
    /// An instance is connected (STO-2). The loop says so when the connection begins, and then daily.
    case connected(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, connection: ConnectionStart)
    /// Gives an instance a new token (REG-4). The old token becomes a former token.
    case rotate(project: ProjectNumber, ordinal: Ordinal, holder: Holder, token: Token)
    /// Cancels a message for everybody who has not acknowledged it (MSG-10).
    case cancel(project: ProjectNumber, number: UInt64)
    /// A device reports a receipt of a message (RCP-2).
    case receipt(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, kind: ReceiptKind,
        streamID: UInt64)
    /// A sender has taken the project's receipts up to and including event `through` (RCP-1).
    case takeReceipts(project: ProjectNumber, through: UInt64)
    /// A device sends to its project (UPS-1), or to a group that it belongs to (GRP-7).
    case upstream(UpstreamCommand)
    /// Senders have acknowledged messages of the project's devices (UPS-1).
    case takeUpstream(project: ProjectNumber, numbers: [UInt64])
    /// Writes a row unchanged, to see whether the store takes writes (OPS-12).
    case touch
    /// Counts of now-or-never messages (REP-1, TTL-2).
    case count([DayCount])
}

extension Command {
    /// What a command is about, which decides its place among the waiting ones.
    package enum Scope: Sendable, Hashable {
        /// The whole broker, an administrator's rows, or connections. Goes before projects' commands, and is applied whole in
        /// one transaction.
        case broker
        /// New instances of a project, which is named by its ID.
        case registrations(String)
        case project(ProjectNumber)
    }

    /// What the command is about.
    package var scope: Scope {
        switch self {
        case .createProject, .changeProject, .createKey, .revokeKey, .createServiceAccount,
            .revokeServiceAccount, .changeRegistry, .acknowledge, .connected, .touch, .count:
            .broker
        case .changeBridge(let change): change.project.map { .project($0) } ?? .broker
        case .register(let instance): .registrations(instance.project)
        case .send(let project, _), .changeTopic(let project, _, _, _, _),
            .changeTopics(let project, _, _, _, _), .unregister(let project, _, _),
            .unregisterToken(let project, _), .rotate(let project, _, _, _),
            .cancel(let project, _), .receipt(let project, _, _, _, _),
            .takeReceipts(let project, _), .takeUpstream(let project, _),
            .createGroup(let project, _, _, _), .changeGroup(let project, _, _, _, _):
            .project(project)
        case .upstream(let message): .project(message.project)
        }
    }

    /// What a command costs that writes some rows.
    package static var commonWeight: Int { 4 }

    /// The command's cost in units. One for a token of a topic change, and one for two targets of a message to several.
    package var weight: Int {
        switch self {
        case .changeTopic(_, _, _, let tokens, let progress):
            max(1, tokens.count - progress.doneCount)
        case .changeTopics(_, _, _, let topics, _): Self.commonWeight + topics.count
        case .send(_, let message):
            if case .several(let targets) = message.target {
                Self.commonWeight + targets.count / 2
            } else {
                Self.commonWeight
            }
        case .createGroup(_, _, _, let tokens), .changeGroup(_, _, _, _, let tokens):
            Self.commonWeight + tokens.count
        case .createProject, .changeProject, .createKey, .revokeKey, .createServiceAccount,
            .revokeServiceAccount, .changeRegistry, .changeBridge, .register, .unregister,
            .unregisterToken, .acknowledge, .connected, .rotate, .cancel, .receipt, .takeReceipts,
            .upstream,
            .takeUpstream, .touch, .count:
            Self.commonWeight
        }
    }

    /// Whether the outcome depends on acknowledgements in earlier commands.
    package var asksWhoHas: Bool {
        switch self {
        case .cancel, .unregister, .unregisterToken: true
        case .changeBridge(let change): change.asksWhoHas
        case .createProject, .changeProject, .createKey, .revokeKey, .createServiceAccount,
            .revokeServiceAccount, .changeRegistry, .register, .changeTopics, .changeTopic,
            .createGroup, .changeGroup, .send, .acknowledge, .connected, .rotate, .receipt,
            .takeReceipts, .upstream, .takeUpstream, .touch, .count:
            false
        }
    }
}
