// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys of service accounts (REG-5). Rests on ServedRequest.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

extension CreateServiceAccountRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(
            .createServiceAccount(
                project: projectID,
                key: NewServiceAccountKey(
                    id: keyID, name: name, clientEmail: clientEmail, publicKey: publicKey)))
    }
}

extension RevokeServiceAccountRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(.revokeServiceAccount(project: projectID, keyID: keyID))
    }
}

extension ListServiceAccountsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> ServiceAccountPage {
        try principal.checkAdministrator()
        let keys = try answerer.read {
            try $0.projects.serviceAccountKeys(
                of: try Authentication.project(id: projectID, in: $0).number)
        }
        return ServiceAccountPage(
            accounts: keys.map {
                ServiceAccountSummary(
                    keyID: $0.id, name: $0.name, clientEmail: $0.clientEmail,
                    created: $0.created, isRevoked: $0.isRevoked)
            })
    }
}
