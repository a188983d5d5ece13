// SPDX-License-Identifier: Apache-2.0
//
// Reads what a page with FCM's web SDK registers: its subscription, as it got it from the browser. Rests on JSONValue and
// PushEndpoint.
// Source: the web SDK's requests to `registrations`.

import Martlet
import MartletBridge
import MartletCrypto
import MartletGateway
import MartletRows

/// The body of a registration: `{"web":{"endpoint":…,"p256dh":…,"auth":…,"applicationPubKey":…}}`.
struct WebClientRegistration {
    let endpoint: PushEndpoint
    let address: WebPushAddress
    /// The key that the page subscribed with; nil for the SDK's own, whose private half only Google has.
    let applicationKey: [UInt8]?

    /// - Parameter ownOrigins: this broker's origins. Endpoints there may be plain HTTP.
    init(_ body: [UInt8], ownOrigins: [PushOrigin]) throws(GatewayError) {
        guard let value = try? JSONValue(document: body, repeatedNames: .takeLast),
            let web = value["web"], case .object = web
        else {
            throw Self.wrong("web", "The body must be an object with the subscription in 'web'.")
        }
        guard let url = web["endpoint"]?.string else {
            throw Self.wrong("web.endpoint", "The subscription has no endpoint.")
        }
        guard let publicKey = LenientBase64.publicKey(web["p256dh"]?.string ?? "") else {
            throw Self.wrong(
                "web.p256dh", "The key must be a P-256 point of 65 bytes, in Base64URL.")
        }
        guard let secret = LenientBase64.decode(web["auth"]?.string ?? ""),
            PushRecipient(publicKey: publicKey, authentication: secret) != nil
        else {
            throw Self.wrong(
                "web.auth", "The secret must have 16 bytes, and the key must be a point on P-256."
            )
        }
        do throws(MartletError) {
            endpoint = try PushEndpoint(
                url, isPlainAllowed: ownOrigins.contains { url.hasPrefix("\($0)/") })
        } catch {
            throw Self.wrong("web.endpoint", error.message)
        }
        address = WebPushAddress(
            endpoint: endpoint.url, publicKey: publicKey, authentication: secret)
        guard let text = web["applicationPubKey"]?.string else {
            applicationKey = nil
            return
        }
        guard let key = LenientBase64.publicKey(text) else {
            throw Self.wrong(
                "web.applicationPubKey", "The key must be a P-256 point of 65 bytes, in Base64URL.")
        }
        applicationKey = key
    }

    static func wrong(_ field: String, _ reason: String) -> GatewayError {
        GatewayError.invalid(reason, field: field)
    }
}
