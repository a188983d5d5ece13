// SPDX-License-Identifier: Apache-2.0
//
// How every interface of the gateway sends. The key of a group may stand where a token does (GRP-5).
// Rests on Broker.

import Martlet

extension Gateway {
    /// Sends to the group of this key where no instance has the token.
    func send(
        _ message: OutgoingMessage, in project: String
    ) async throws(MartletError) -> SendReceipt {
        do throws(MartletError) {
            return try await broker.send(message, in: project)
        } catch {
            guard error.word == .unregistered, case .token(let key) = message.target,
                try broker.group(key: key, in: project) != nil
            else { throw error }
            var message = message
            message.target = .group(key)
            return try await broker.send(message, in: project)
        }
    }
}
