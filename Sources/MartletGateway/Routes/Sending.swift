// SPDX-License-Identifier: Apache-2.0
//
// Sending for every interface of the gateway. The key of a group may stand in the place of a token (GRP-5). Rests on
// Broker.

import Martlet

extension Gateway {
    /// Sends the message of a call once, even if the caller repeats the call (GW-8).
    /// - Parameter answer: writes the receipt in the interface's form.
    func send(
        _ message: OutgoingMessage, of call: GatewayCall,
        answer: @escaping @Sendable (SendReceipt) throws -> GatewayAnswer
    ) async throws -> GatewayAnswer {
        let project = try call.identified.projectID
        guard !message.validateOnly else {
            return try answer(try await send(message, as: nil, in: project))
        }
        return try await retries.answer(call) { attempt in
            try answer(try await self.send(message, as: attempt, in: project))
        }
    }

    /// GRP-5: whether a send failed because the target is a group without members. Such a group has ended (GRP-4),
    /// and only its key is left.
    func isOfEndedGroup(
        _ error: MartletError, _ message: OutgoingMessage, of call: GatewayCall
    ) throws -> Bool {
        guard error.word == .unregistered, case .token(let key) = message.target else {
            return false
        }
        return try broker.isGroupKey(key, in: try call.identified.projectID)
    }

    /// Sends to the token's instance, or to the group with this key if no instance has the token.
    private func send(
        _ message: OutgoingMessage, as attempt: SendAttempt?, in project: String
    ) async throws(MartletError) -> SendReceipt {
        do throws(MartletError) {
            return try await broker.send(message, as: attempt, in: project)
        } catch {
            guard error.word == .unregistered, case .token(let key) = message.target,
                try broker.group(key: key, in: project) != nil
            else { throw error }
            var message = message
            message.target = .group(key)
            return try await broker.send(message, as: attempt, in: project)
        }
    }
}
