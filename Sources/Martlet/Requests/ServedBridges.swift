// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about a project's keys for push services (GW-11). The private half of a key is sealed here,
// and reaches the store sealed. Rests on ServedRequest and MartletCrypto.

import MartletBase
import MartletCommitter
import MartletCrypto
import MartletEngine
import MartletRows
import MartletWire

extension AddBridgeKeyRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        guard let key = SigningKey(pkcs8: Array(privateKey.utf8)) else {
            throw MartletError(
                .invalidArgument,
                """
                The private key is an ES256 key as text, from 'BEGIN PRIVATE KEY' to 'END PRIVATE \
                KEY': for Apple the file AuthKey_….p8.
                """, field: "private_key")
        }
        switch kind {
        case .apns:
            for (value, name) in [(keyID, "key ID"), (owner, "team ID")] {
                guard value.utf8.count == Self.appleIDBytes,
                    value.allSatisfy({ $0.isASCII && ($0.isNumber || $0.isUppercase) })
                else {
                    throw MartletError(
                        .invalidArgument,
                        "Apple's \(name) has \(Self.appleIDBytes) characters of [A-Z0-9].",
                        field: name == "key ID" ? "key_id" : "team_id")
                }
            }
        case .webPush:
            guard Base64URL.encode(key.publicPoint) == keyID else {
                throw MartletError(
                    .invalidArgument, "The ID is the public key of the pair, in Base64URL.",
                    field: "key_id")
            }
        }
        let sealed = try answerer.sealingKey().seal(
            Array(privateKey.utf8), at: BridgeKey.place(of: keyID, kind, in: projectID))
        return .command(
            .changeBridge(
                .putKey(
                    project: projectID,
                    BridgeKey(kind: kind, id: keyID, owner: owner, sealed: sealed))))
    }

    /// Source: Apple's developer account gives key IDs and team IDs of ten characters.
    private static var appleIDBytes: Int { 10 }
}

extension RemoveBridgeKeyRequest: ServedCommand {
    var command: Command { .changeBridge(.removeKey(project: projectID, kind: kind, id: keyID)) }
}

extension ListBridgeKeysRequest: ServedList {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [BridgeKeySummary] {
        try storage.bridges.keys(of: project.number).map {
            BridgeKeySummary(kind: $0.kind, id: $0.id, owner: $0.owner, created: $0.created)
        }
    }
}

extension BridgeKey {
    /// The bytes that bind a sealed key to its place.
    static func place(of id: String, _ kind: BridgeKind, in projectID: String) -> [UInt8] {
        Array("\(projectID) \(kind.name) \(id)".utf8)
    }
}

extension Answerer {
    /// The key that seals secrets in the store, made of the folder's secret.
    func sealingKey() throws(MartletError) -> SealingKey {
        do {
            return SealingKey(
                from: try DataFolder.bridgeSecret(
                    in: folder, isShared: gauges.committer.node != nil),
                for: "keys of push services")
        } catch {
            throw MartletError(
                .unavailable, "The secret of the data folder cannot be read: \(error)")
        }
    }
}
