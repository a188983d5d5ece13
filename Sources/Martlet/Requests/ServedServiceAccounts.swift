// SPDX-License-Identifier: Apache-2.0
//
// An administrator's request for a new service-account key (REG-5). Rests on ServedKeys.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

extension CreateServiceAccountRequest: ServedCommand {
    var command: Command {
        .createServiceAccount(
            project: projectID,
            key: NewServiceAccountKey(
                id: keyID, name: name, clientEmail: clientEmail, publicKey: publicKey))
    }
}
