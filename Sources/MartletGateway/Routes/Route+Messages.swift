// SPDX-License-Identifier: Apache-2.0
//
// `messages:send` of v1 (GW-1). Rests on MessageRequest.

import Martlet

extension Route {
    static let messages = [
        Route("messages:send", .post, "v1/projects/{project}/messages:send", isSending: true) {
            (call, gateway) in
            let caller = try call.identified
            guard call.body.count <= Limits.httpMessageBytesMax else {
                throw GatewayError.invalid(
                    "A request for a message has at most \(Limits.httpMessageBytesMax) bytes.",
                    field: "message")
            }
            let request = try await gateway.reading(call) { (call) throws(GatewayError) in
                try MessageRequest(body: call.body)
            }
            return try await gateway.send(request.message, of: call) { receipt in
                try receipt.requireMember()
                // A dry run has no message number, but SDKs expect a name of the usual form.
                let name =
                    receipt.messageID ?? "projects/\(caller.projectID)/messages/fake_message_id"
                return .json(.object(["name": .string(name)]))
            }
        }
    ]
}

extension SendReceipt {
    /// GRP-5: refuses a message that no member of the group gets, with the first member's failure. v1 has no place
    /// for the outcomes of single members. Source: FCM refuses (XMPP: nacks) a message to a group only where all
    /// members failed.
    fileprivate func requireMember() throws(MartletError) {
        guard let tokens, tokens.successCount == 0, let failure = tokens.failures.first else {
            return
        }
        throw MartletError(
            failure.word, "The message is for no member of the group.",
            field: failure.word == .invalidArgument ? "restricted_package_name" : "token")
    }
}
