// SPDX-License-Identifier: Apache-2.0
//
// What the door to foreign push services asks of its broker (GW-11): the instances with an address, the keys of
// projects, and the ends that the services tell. The door attaches its instances on connections of role 5, with a
// credential of this process in place of their device keys: `bridgeCredential` lives in memory alone. Such a session is
// no connection of the device. A real connection of the instance takes over, and the door has to wait until
// `answering(among:of:)` says that the device has left. The door that hands over is at the active node, whose store
// has everything, so the door's questions do not wait. Rests on Broker.

package import MartletBase
package import MartletBits
package import MartletCommitter
package import MartletCrypto
import MartletEngine
package import MartletRows
import MartletThreads

/// An instance that a push service reaches.
package struct BridgedInstance: Sendable {
    package var project: ProjectNumber
    package var ordinal: Ordinal
    package var holder: Holder
    package var token: Token
    package var bridging: Bridging
}

/// A project's key for a push service, opened.
package struct OpenBridgeKey: Sendable {
    package var kind: BridgeKind
    /// Apple's key ID, or the public key of a pair for Web Push.
    package var id: String
    /// Apple's team ID, or the contact of a pair for Web Push.
    package var owner: String
    package var key: SigningKey
    /// When the key was added or replaced.
    package var created: Instant
}

extension Broker {
    /// The news between the broker and its door.
    package var bridges: BridgeBook { committer.bridges }

    /// OPS-7: whether this process may hand over now. A node that was frozen finds its lease over.
    package var mayHandOver: Bool { committer.node?.isActive ?? true }

    /// All projects, for a door that begins.
    package func bridgedProjects() throws(MartletError) -> [(number: ProjectNumber, id: String)] {
        try read { (transaction) throws in
            var all: [(number: ProjectNumber, id: String)] = []
            while true {
                let some = try transaction.projects.projects(
                    after: all.last?.id ?? "", limit: Limits.pageEntriesMax)
                all += some.map { ($0.number, $0.id) }
                guard some.count == Limits.pageEntriesMax else { return all }
            }
        }
    }

    /// The ID of a project; nil for an unknown project.
    package func bridgedProject(_ number: ProjectNumber) throws(MartletError) -> String? {
        try read { (transaction) throws in try transaction.projects.project(number)?.id }
    }

    /// The keys of a project for push services, the newest first. A key that the secret of the folder does not open is left out.
    /// - Parameter unreadable: called with the ID of each key that is left out.
    package func bridgeKeys(
        of number: ProjectNumber, unreadable: (String) -> Void
    ) throws(MartletError) -> [OpenBridgeKey] {
        let sealing = try answerer.sealingKey()
        let (projectID, keys) = try read { (transaction) throws in
            (
                try transaction.projects.project(number)?.id ?? "",
                try transaction.bridges.keys(of: number)
            )
        }
        return keys.sorted { $0.created > $1.created }.compactMap { key in
            let place = BridgeKey.place(of: key.id, key.kind, in: projectID)
            guard let text = sealing.open(key.sealed, at: place),
                let opened = SigningKey(pkcs8: text)
            else {
                unreadable(key.id)
                return nil
            }
            return OpenBridgeKey(
                kind: key.kind, id: key.id, owner: key.owner, key: opened, created: key.created)
        }
    }

    /// The instances of a project with an address, in the order of their ordinals.
    /// - Parameters:
    ///   - start: the first ordinal looked at.
    ///   - limit: of instances read.
    package func bridged(
        in project: ProjectNumber, from start: Ordinal, limit: Int
    ) throws(MartletError) -> [BridgedInstance] {
        try read { (transaction) throws in
            var all: [BridgedInstance] = []
            for (ordinal, bridging) in try transaction.bridges.all(
                in: project, from: start, limit: limit)
            {
                guard let instance = try transaction.instances.instance(ordinal, in: project)
                else { continue }
                all.append(BridgedInstance(instance, bridging))
            }
            return all
        }
    }

    /// An instance with an address; nil: the instance has none, or is not registered.
    package func bridged(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(MartletError) -> BridgedInstance? {
        try read { (transaction) throws in
            guard let bridging = try transaction.bridges.bridging(of: ordinal, in: project),
                let instance = try transaction.instances.instance(ordinal, in: project)
            else { return nil }
            return BridgedInstance(instance, bridging)
        }
    }

    /// The members of a set that have a connection of their own, and answer there. Members that were sent a message and
    /// then said nothing for some seconds, not to a PING either, lose their connections.
    package func answering(
        among ordinals: [Ordinal], of project: ProjectNumber
    ) async throws(MartletError) -> RecipientSet {
        let set = RecipientSet.of(ordinals)
        var connected: [RecipientSet] = []
        for answer in try await survey(.answering(among: set, of: project)) {
            if case .connected(let some) = answer { connected.append(some) }
        }
        if committer.node != nil {
            let elsewhere = try read { (transaction) throws in
                try ordinals.filter {
                    try ConnectionNumbers.isElsewhere($0, in: project, committer, transaction)
                }
            }
            connected.append(RecipientSet.of(elsewhere))
        }
        return RecipientSet.union(of: connected)
    }

    // MARK: Addresses

    /// Gives an instance an address at a push service. An instance that had the address before has no address any more.
    /// - Parameter address: nil removes the address of the instance.
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project; `INVALID_ARGUMENT` for an address of
    ///   another platform, or a malformed address.
    package func setBridge(
        _ address: BridgeAddress?, ofToken token: String, in project: String
    ) async throws(MartletError) {
        let number = try await number(of: project)
        let (ordinal, holder) = try await holder(of: token, in: number)
        guard let address else {
            _ = try await perform(
                .changeBridge(.removeAddress(project: number, ordinal: ordinal, holder: holder)))
            return
        }
        _ = try await perform(
            .changeBridge(
                .setAddress(project: number, ordinal: ordinal, holder: holder, address)))
    }

    /// Registers an instance that a push service alone reaches. An address that an instance of the project has gives the
    /// token of that instance.
    /// - Parameter app: package name or bundle ID, as for `register`.
    /// - Throws: `NOT_FOUND` for the project; `INVALID_ARGUMENT`; `RESOURCE_EXHAUSTED` for too many instances.
    package func registerBridged(
        _ address: BridgeAddress, app: String, platform: Platform, in project: String
    ) async throws(MartletError) -> Token {
        if let known = try await token(of: address, in: project) { return known }
        let token = Credentials.token()
        let new = NewInstance(
            project: project, app: app, platform: platform, token: token,
            keyDigest: Credentials.digest(Credentials.deviceKey()), proof: .trusted,
            bridging: Bridging(address, isOnlyWay: true))
        do throws(MartletError) {
            _ = try await perform(.register(new))
            return token
        } catch {
            // Another request may have registered the address meanwhile.
            guard error.word == .alreadyExists,
                let known = try await self.token(of: address, in: project)
            else { throw error }
            return known
        }
    }

    /// The token of the instance with an address; nil: no instance of the project has the address.
    package func token(
        of address: BridgeAddress, in project: String
    ) async throws(MartletError) -> Token? {
        let number = try await number(of: project)
        return try await ask { (transaction) throws in
            guard let ordinal = try transaction.bridges.ordinal(of: address, in: number) else {
                return nil
            }
            return try transaction.instances.instance(ordinal, in: number)?.token
        }
    }

    // MARK: Answers of push services

    /// REG-3: a push service says that the address of an instance is gone.
    package func end(_ instance: BridgedInstance) async throws(MartletError) {
        _ = try await perform(
            .changeBridge(
                .end(
                    project: instance.project, ordinal: instance.ordinal, holder: instance.holder,
                    instance.bridging.address)))
    }

    /// REP-1: a push service refused a message for good. The door acknowledges the message afterwards.
    /// - Parameters:
    ///   - streamID: of a stored message.
    ///   - reason: the service's own word.
    package func refuse(
        _ streamID: UInt64, for instance: BridgedInstance, reason: String
    ) async throws(MartletError) {
        _ = try await perform(
            .changeBridge(
                .refuse(
                    BridgeRefusal(
                        project: instance.project, ordinal: instance.ordinal,
                        holder: instance.holder, sequence: MessageSequence(streamID),
                        kind: instance.bridging.address.kind, reason: reason))))
    }
}

extension BridgedInstance {
    fileprivate init(_ instance: Instance, _ bridging: Bridging) {
        self.init(
            project: instance.project, ordinal: instance.ordinal, holder: instance.holder,
            token: instance.token, bridging: bridging)
    }
}
