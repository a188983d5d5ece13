// SPDX-License-Identifier: Apache-2.0
//
// `messages:send` of v1 (GW-1). Rests on MessageRequest.

import Martlet

extension Route {
    static let messages = [
        Route("messages:send", .post, "v1/projects/{project}/messages:send") {
            (call, gateway) in
            let caller = try call.identified
            let request = try MessageRequest(body: call.body)
            return try await gateway.send(request.message, of: call) { receipt in
                // A dry run has no number, and SDKs want a name of the same form.
                let name =
                    receipt.messageID ?? "projects/\(caller.projectID)/messages/fake_message_id"
                return .json(.object(["name": .string(name)]))
            }
        }
    ]
}
