// SPDX-License-Identifier: Apache-2.0
//
// Hands messages to user agents of this broker's own Web Push door, without HTTP (GW-11): the endpoint leads to one of its
// instances, and the encrypted message is an opaque message to it (MSG-11). Rests on Endpoints and Broker.

import Martlet
import MartletBridge

extension WebPushDoor {
    /// Whether an endpoint begins with one of the door's origins.
    func isOwn(_ endpoint: PushEndpoint) -> Bool {
        configuration.origins.contains { $0.description == endpoint.origin }
    }

    /// Whether we gave this endpoint out, for anybody or for this key.
    func takes(_ endpoint: PushEndpoint, of publicKey: [UInt8]) -> Bool {
        find(endpoint, for: [publicKey]) != nil
    }

    /// - Returns: nil if we didn't give it out for any of these keys.
    private func find(_ endpoint: PushEndpoint, for publicKeys: [[UInt8]]) -> Token? {
        let path = endpoint.url.dropFirst(endpoint.origin.count).split(
            separator: "/", omittingEmptySubsequences: false)
        guard path.count == 4, path[1] == "wpush", path[2] == "f" || path[2] == "b" else {
            return nil
        }
        let isBound = path[2] == "b"
        guard let found = endpoints.endpoint(String(path[3]), isBound: isBound),
            !isBound || publicKeys.contains(where: { endpoints.isMade(found, for: $0) })
        else { return nil }
        return found.token
    }

    /// Sends a message to a user agent of the door.
    func handOver(
        _ request: PushRequest, from publicKeys: [[UInt8]]
    ) async -> HandOverAnswer {
        guard let token = find(request.endpoint, for: publicKeys) else {
            return .refused(reason: "Forbidden")
        }
        var outgoing = OutgoingMessage(to: .token(token.text), Message(opaque: request.body))
        outgoing.timeToLiveSeconds = request.timeToLiveSeconds
        outgoing.priority = request.urgency == .high ? .high : .normal
        outgoing.collapseKey = request.topic
        do throws(MartletError) {
            _ = try await broker.send(outgoing, in: configuration.project)
            return .taken
        } catch {
            let seconds = error.retryDelayMilliseconds.map { (Int64($0) + 999) / 1000 }
            switch error.word {
            case .unregistered, .notFound: return .gone(reason: "Gone")
            case .quotaExceeded, .resourceExhausted:
                return .laterForInstance(reason: error.message, afterSeconds: seconds)
            case .invalidArgument: return .refused(reason: error.word.name)
            default: return .later(reason: error.message, afterSeconds: seconds)
            }
        }
    }
}
