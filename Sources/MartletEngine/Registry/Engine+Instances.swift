// SPDX-License-Identifier: Apache-2.0
//
// Registers and unregisters instances (REG-1, REG-3, REG-7), and gives them new tokens (REG-4).
//
// An ordinal is free as soon as its holder has unregistered, when no set has it any more. The recipient sets of older messages
// are never rewritten and may still have its bit, but the next holder's watermark starts at the project's last sequence,
// above all of them. Unregistering takes a sequence itself, so now-or-never messages lie below that watermark too. Rests
// on the ledgers.

import MartletBase
import MartletBits
import MartletRows

extension Engine {
    mutating func register(
        _ new: NewInstance, now: Instant, in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard var project = try storage.projects.project(id: new.project) else {
            return .refused(.noProject)
        }
        // Every refusal comes before the first write.
        let place = try place(forApp: new.app, on: new.platform, in: project, storage)
        if case .refused(let error) = place { return .refused(error) }
        if let refusal = try Authentication.refusal(of: new, in: project, now, storage) {
            return .refused(refusal)
        }
        if let channel = new.channel, let refusal = try refusal(of: channel, in: project, storage) {
            return .refused(refusal)
        }
        if let bridging = new.bridging,
            let refusal = try refusal(of: bridging.address, for: new, in: project, storage)
        {
            return .refused(refusal)
        }
        let instancesMax = project.limits[.instancesPerProject] ?? limits.instancesPerProjectMax
        guard instancesMax == 0 || project.instanceCount < UInt64(instancesMax) else {
            return .refused(.tooManyInstances(instancesMax))
        }
        if !new.proof.isTrusted {
            do {
                try quotas.takeRegistration(
                    in: project.number,
                    perSecond: project.limits[.registrationsPerSecond]
                        ?? limits.registrationsPerSecond, at: now)
            } catch { return .refused(error) }
        }
        let ordinal: Ordinal
        if let free = try storage.instances.takeFree(.ordinal, in: project.number) {
            ordinal = Ordinal(free)
        } else {
            ordinal = project.nextOrdinal
            guard let next = Ordinal.next(after: ordinal) else {
                return .refused(
                    MartletError(
                        .resourceExhausted, "The project has as many instances as it can have.",
                        field: "project"))
            }
            project.nextOrdinal = next
        }
        guard ordinal < project.nextOrdinal,
            try storage.instances.holder(of: ordinal, in: project.number) == nil
        else { throw .contradiction(.free, "a free ordinal has a holder, or was never issued") }
        let app: App
        switch place {
        case .known(let known): app = known
        case .free(let deleted):
            app = try makeApp(
                new.app, on: new.platform, again: deleted, in: &project, storage)
        case .refused(let error): return .refused(error)
        }
        project.instanceCount += 1
        let instance = Instance(
            project: project.number, ordinal: ordinal, token: new.token, keyDigest: new.keyDigest,
            app: app.number, platform: app.platform, registered: now,
            registeredBehind: project.lastSequence)
        try storage.instances.insert(instance)
        if let channel = new.channel {
            try storage.agents.insert(channel, of: ordinal, in: project.number)
        }
        if let bridging = new.bridging {
            _ = try storage.bridges.put(bridging, of: ordinal, in: project.number)
        }
        if case .ticket(let ticket) = new.proof,
            try storage.registrations.policies(of: project.number).registration == .ticket
        {
            try storage.registrations.spend(
                ticket.digest, expires: ticket.expires, in: project.number)
            try storage.registrations.putGrants(ticket.topics, of: ordinal, in: project.number)
        }
        // An instance's first departure. It sets `seen`, and names connection 0, because there was none.
        let seen = Acknowledgement(
            project: project.number, ordinal: ordinal, through: LaneMarks(project.lastSequence),
            departure: Acknowledgement.Departure(
                connectionNumber: 0, position: project.lastSequence,
                throttleFull: Instant(millisecondsSince1970: 0), seen: now))
        _ = try apply(.acknowledge([seen]), now: now, in: storage)
        for set in Self.standingSets(of: instance) {
            _ = try storage.sets.add([ordinal.rawValue], to: set, in: project.number)
        }
        try storage.projects.put(project, isNew: false)
        return .registered(instance, project)
    }

    /// A channel has one instance, and a user agent may only have so many channels (GW-13).
    private func refusal(
        of channel: AgentChannel, in project: Project, _ storage: borrowing Transaction
    ) throws(StorageError) -> MartletError? {
        guard try storage.agents.ordinal(of: channel, in: project.number) == nil else {
            return MartletError(
                .alreadyExists, "The user agent has already registered this channel.",
                field: "channelID")
        }
        let count = try storage.agents.channels(
            of: channel.agent, in: project.number, limit: Limits.agentChannelsMax
        ).count
        guard count < Limits.agentChannelsMax else {
            return MartletError(
                .resourceExhausted, "The user agent has \(count) channels; no more are allowed.",
                field: "channelID")
        }
        return nil
    }

    mutating func unregister(
        _ ordinal: Ordinal, of holder: Holder?, in number: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard var project = try storage.projects.project(number),
            let instance = try storage.instances.instance(ordinal, in: number),
            holder == nil || holder == instance.holder
        else {
            return .refused(
                MartletError(.unregistered, "The instance is not registered.", field: "token"))
        }
        for topicNumber in try storage.topics.topicNumbers(of: ordinal, in: number) {
            guard let topic = try storage.topics.topic(TopicNumber(topicNumber), in: number) else {
                continue
            }
            try leave(topic, [ordinal.rawValue], &project, storage)
        }
        try storage.topics.setTopicNumbers([], of: ordinal, in: number)
        try leaveGroups(ordinal, in: number, storage)
        for set in Self.standingSets(of: instance) {
            _ = try storage.sets.remove([ordinal.rawValue], from: set, in: number)
        }
        try storage.departing.remove(instance, now: now, limits: limits)
        try storage.instances.putFree(ordinal.rawValue, .ordinal, in: number)
        project.instanceCount = try project.instanceCount.less(in: .instances)
        project.lastSequence = MessageSequence(project.lastSequence.rawValue + 1)
        try storage.projects.put(project, isNew: false)
        rates.renew(ordinal, in: number, at: now)
        upstreamRates.renew(ordinal, in: number, at: now)
        topicRates.renew(ordinal, in: number)
        return .unregistered(project: number, ordinal: ordinal, holder: instance.holder)
    }

    /// Unregisters a token's holder (REG-3). Looks the token up in the same transaction, so no other command can come in
    /// between.
    mutating func unregister(
        token: String, in number: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        let found: Token
        do throws(MartletError) {
            found = try Token(validating: token)
        } catch {
            return .refused(error)
        }
        guard let ordinal = try Listing.ordinal(of: found, in: number, storage) else {
            return .refused(.unknownToken)
        }
        return try unregister(ordinal, of: nil, in: number, now: now, storage)
    }

    /// Gives an instance a new token (REG-4). Topics, groups, sets and mailbox stay, because its ordinal does.
    func rotate(
        _ ordinal: Ordinal, of holder: Holder, in number: ProjectNumber, to token: Token,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let instance = try storage.instances.instance(ordinal, in: number),
            holder == instance.holder
        else {
            return .refused(
                MartletError(.unregistered, "The instance is not registered.", field: "token"))
        }
        try storage.instances.replaceToken(of: ordinal, in: number, with: token)
        return .rotated(token)
    }

    /// The sets that an instance is in from its registration to its end.
    static func standingSets(of instance: Instance) -> [InstanceSet] {
        [.everyone, .platform(instance.platform), .app(instance.app)]
    }
}

extension RegistrationProof {
    fileprivate var isTrusted: Bool { if case .trusted = self { true } else { false } }
}

extension MartletError {
    fileprivate static func tooManyInstances(_ count: Int) -> MartletError {
        MartletError(
            .resourceExhausted,
            """
            The project has \(count) instances (instances-per-project-max); no more are allowed. \
            Unregister some, or delete an app.
            """, field: "project")
    }
}
