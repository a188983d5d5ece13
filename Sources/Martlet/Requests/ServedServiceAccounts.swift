// SPDX-License-Identifier: Apache-2.0
//
// An administrator's request for a new service-account key (REG-5). Rests on ServedRequest.

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
