// SPDX-License-Identifier: Apache-2.0
//
// A message on its way to a push service. Rests on PushEndpoint.
// Source: RFC 8030, sections 5.2 to 5.4.

/// A message for one subscription of a push service.
package struct PushRequest: Sendable {
    /// The header `urgency`.
    package enum Urgency: String, Sendable {
        case normal
        case high
    }

    package var endpoint: PushEndpoint
    /// The encrypted body; empty for an event without data.
    package var body: [UInt8]
    /// The header `Authorization`.
    package var authorization: String
    package var timeToLiveSeconds: UInt32
    package var urgency = Urgency.normal
    /// 1 to 32 characters of `[A-Za-z0-9_-]`. The message replaces a waiting one with the same topic.
    package var topic: String?

    package init(
        to endpoint: PushEndpoint, body: [UInt8], authorization: String, timeToLiveSeconds: UInt32
    ) {
        self.endpoint = endpoint
        self.body = body
        self.authorization = authorization
        self.timeToLiveSeconds = timeToLiveSeconds
    }
}
