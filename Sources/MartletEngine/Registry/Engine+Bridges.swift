// SPDX-License-Identifier: Apache-2.0
//
// Changes the addresses at push services, and the keys for them (GW-11). Rests on the ledgers.

package import MartletBase
package import MartletRows

extension Engine {
    mutating func changeBridge(
        _ change: BridgeChange, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        switch change {
        case .setAddress(let project, let ordinal, let holder, let address):
            guard
                let instance = try holding(ordinal, holder, in: project, storage)
            else { return .refused(.notHeld) }
            if let fault = address.fault(on: instance.platform) { return .refused(fault) }
            let known = try storage.bridges.bridging(of: ordinal, in: project)
            if known?.address == address { return .done }
            let former = try storage.bridges.put(
                Bridging(address, isOnlyWay: known?.isOnlyWay ?? false), of: ordinal, in: project)
            guard let former else { return .bridgeChanged(.instance(project, ordinal)) }
            return .bridgeChanged(.instances(project, ordinal, former: former))
        case .removeAddress(let project, let ordinal, let holder):
            guard try holding(ordinal, holder, in: project, storage) != nil else {
                return .refused(.notHeld)
            }
            try storage.bridges.remove(of: ordinal, in: project)
            return .bridgeChanged(.instance(project, ordinal))
        case .end(let project, let ordinal, let holder, let address):
            guard try holding(ordinal, holder, in: project, storage) != nil else {
                return .refused(.notHeld)
            }
            guard let known = try storage.bridges.bridging(of: ordinal, in: project),
                known.address.digest.bytes == address.digest.bytes
            else { return .done }
            guard !known.isOnlyWay else {
                return try unregister(ordinal, of: holder, in: project, now: now, storage)
            }
            try storage.bridges.remove(of: ordinal, in: project)
            return .bridgeChanged(.instance(project, ordinal))
        case .refuse(let refusal): return try refuse(refusal, now: now, storage)
        case .putKey(let projectID, let key):
            return try put(key, projectID: projectID, now: now, storage)
        case .removeKey(let projectID, let kind, let id):
            guard let project = try storage.projects.project(id: projectID) else {
                return .refused(.noProject)
            }
            guard !id.isEmpty, id.utf8.count <= BridgeKey.idBytesMax,
                try storage.bridges.removeKey(kind, id, in: project.number)
            else {
                return .refused(
                    MartletError(
                        .notFound, "The project has no key with this ID for this push service.",
                        field: "key_id"))
            }
            return .bridgeChanged(.keys(project.number))
        }
    }

    private func holding(
        _ ordinal: Ordinal, _ holder: Holder?, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Instance? {
        guard let instance = try storage.instances.instance(ordinal, in: project),
            holder == nil || holder == instance.holder
        else { return nil }
        return instance
    }

    private func put(
        _ key: BridgeKey, projectID: String, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(id: projectID) else {
            return .refused(.noProject)
        }
        if let fault = key.fault { return .refused(fault) }
        let known = try storage.bridges.keys(of: project.number).filter { $0.kind == key.kind }
        let isKnown = known.contains { $0.id == key.id }
        guard isKnown || known.count < Limits.bridgeKeysPerServiceMax else {
            return .refused(
                MartletError(
                    .resourceExhausted,
                    """
                    The project has \(known.count) keys for this push service; no more are allowed. \
                    Remove a key.
                    """, field: "key_id"))
        }
        var key = key
        key.created = now
        try storage.bridges.put(key, in: project.number)
        return .bridgeChanged(.keys(project.number))
    }

    /// Counts the refusal as the message's outcome for the instance, and the reason for the report (REP-1).
    private func refuse(
        _ refusal: BridgeRefusal, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard
            let instance = try holding(
                refusal.ordinal, refusal.holder, in: refusal.project, storage)
        else { return .refused(.notHeld) }
        if try storage.acknowledging.refuse(refusal.sequence, for: instance, now: now) {
            try storage.reports.countRefusal(
                by: refusal.kind, refusal.reason, of: refusal.sequence, in: refusal.project)
        }
        return .done
    }

    /// Refuses a new instance whose address another one has.
    func refusal(
        of address: BridgeAddress, for new: NewInstance, in project: Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> MartletError? {
        if let fault = address.fault(on: new.platform) { return fault }
        guard try storage.bridges.ordinal(of: address, in: project.number) == nil else {
            return MartletError(
                .alreadyExists, "An instance of the project already has this address.",
                field: "address")
        }
        return nil
    }
}

extension BridgeKey {
    /// Bytes of an ID. Apple's key IDs have 10, and a public key for Web Push has 87.
    package static let idBytesMax = 96
    /// Bytes of a sealed secret half.
    package static let sealedBytesMax = 1024
    /// Bytes that sealing adds: the nonce and the tag of AES-256-GCM.
    private static let sealingBytes = 28

    /// What is wrong with the sizes of a key.
    fileprivate var fault: MartletError? {
        guard (1...Self.idBytesMax).contains(id.utf8.count) else {
            return MartletError(
                .invalidArgument,
                "The ID of a key for a push service has 1 to \(Self.idBytesMax) bytes.",
                field: "key_id")
        }
        guard owner.utf8.count <= Limits.keyNameBytesMax else {
            return MartletError(
                .invalidArgument,
                """
                The team of a key for a push service has at most \(Limits.keyNameBytesMax) bytes.
                """, field: "team_id")
        }
        guard sealed.count <= Self.sealedBytesMax else {
            return MartletError(
                .invalidArgument,
                """
                The text of a private key has at most \(Self.sealedBytesMax - Self.sealingBytes) \
                bytes. Give the part from 'BEGIN PRIVATE KEY' to 'END PRIVATE KEY' alone.
                """, field: "private_key")
        }
        return nil
    }
}

extension BridgeAddress {
    /// What is wrong with an address, for an instance of a platform.
    package func fault(on platform: Platform) -> MartletError? {
        switch self {
        case .apns(let address):
            guard platform == .apple else { return .wrongPlatform("apple") }
            guard (1...Limits.apnsTokenBytesMax).contains(address.token.count) else {
                return MartletError(
                    .invalidArgument,
                    "A device token of APNs has 1 to \(Limits.apnsTokenBytesMax) bytes.",
                    field: "apns_token")
            }
            let allowed = address.bundle.utf8.allSatisfy { TopicName.isAllowed($0) }
            guard allowed, (1...Limits.appNameBytesMax).contains(address.bundle.utf8.count) else {
                return MartletError(
                    .invalidArgument,
                    """
                    A bundle ID has 1 to \(Limits.appNameBytesMax) characters of [a-zA-Z0-9-_.~%].
                    """, field: "application")
            }
        case .webPush(let address):
            guard platform == .web else { return .wrongPlatform("web") }
            guard (1...Limits.webPushEndpointBytesMax).contains(address.endpoint.utf8.count) else {
                return MartletError(
                    .invalidArgument,
                    """
                    The endpoint of a Web Push subscription has 1 to \
                    \(Limits.webPushEndpointBytesMax) bytes.
                    """, field: "endpoint")
            }
            guard address.publicKey.count == Limits.webPushPublicKeyBytes,
                address.publicKey.first == 4
            else {
                return MartletError(
                    .invalidArgument,
                    """
                    The public key of a Web Push subscription is an uncompressed point of \
                    \(Limits.webPushPublicKeyBytes) bytes.
                    """, field: "p256dh")
            }
            guard address.authentication.count == Limits.webPushSecretBytes else {
                return MartletError(
                    .invalidArgument,
                    """
                    The secret of a Web Push subscription has \(Limits.webPushSecretBytes) bytes.
                    """, field: "auth")
            }
        }
        return nil
    }
}

extension MartletError {
    fileprivate static var notHeld: MartletError {
        MartletError(.unregistered, "The instance is not registered.", field: "token")
    }

    fileprivate static func wrongPlatform(_ platform: String) -> MartletError {
        MartletError(
            .invalidArgument,
            "Only an instance of the platform \(platform) can have such an address.",
            field: "platform")
    }
}
