// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about server keys (REG-5). The text of a key goes from here to the answer and never
// reaches the store. Rests on ServedRequest.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

extension CreateKeyRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<KeyResult> {
        try principal.checkAdministrator()
        let key = Credentials.serverKey()
        let new = NewKey(id: key.id, name: name, digest: Credentials.digest(key.text))
        return .command(.createKey(project: projectID, key: new)) { _ in
            .answer(KeyResult(keyID: key.id, serverKey: key.text))
        }
    }
}

extension RevokeKeyRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(.revokeKey(project: projectID, keyID: keyID))
    }
}

extension ListKeysRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> KeyPage {
        try principal.checkAdministrator()
        let keys = try answerer.read {
            try $0.projects.serverKeys(of: try Authentication.project(id: projectID, in: $0).number)
        }
        return KeyPage(
            keys: keys.map {
                ServerKeySummary(
                    id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
            })
    }
}
