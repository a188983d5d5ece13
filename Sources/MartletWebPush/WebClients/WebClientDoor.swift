// SPDX-License-Identifier: Apache-2.0
//
// Registers web pages that use FCM's web SDK (GW-11). A page subscribes at its browser's own push service and gets a token
// here for that subscription. The `apiKey` in the SDK's configuration is a registration key of the project (REG-7). Every
// page contains it, so scripts of any origin may ask. Rests on Broker and MartletGateway. Source: the web SDK's requests to
// `registrations`.

package import Martlet
package import MartletGateway
import MartletRows

/// The registrations of a broker's web clients.
package struct WebClientDoor: GatewayDoor {
    /// Longest body, in bytes: an endpoint and three short values.
    private static let bodyBytesMax = 8192
    /// The app that pages belong to, in every project. The SDK names none that we could trust.
    package static let app = "web"

    private let broker: Broker
    /// The broker's own Web Push door, if it has one.
    private let own: WebPushDoor?

    package init(_ broker: Broker, own: WebPushDoor?) {
        self.broker = broker
        self.own = own
    }

    package var routes: [Route] {
        let collection = "v1/projects/{project}/registrations"
        let one = collection + "/{registration}"
        return [
            route("registrations.create", .post, collection) { (call) in
                let found = try registration(in: call)
                let token = try await broker.register(
                    found.address, app: Self.app, in: project(of: call),
                    presenting: Self.credential(of: call), from: Self.address(of: call))
                return ["token": .string(token.text)]
            },
            route("registrations.patch", .patch, one) { (call) in
                let found = try registration(in: call)
                try await broker.change(
                    webClient: call["registration"], to: found.address, in: project(of: call))
                return ["token": .string(call["registration"])]
            },
            route("registrations.delete", .delete, one) { (call) in
                try await broker.unregister(
                    webClient: call["registration"], in: project(of: call))
                return [:]
            },
            preflight(collection), preflight(one),
        ]
    }

    private func route(
        _ name: String, _ method: GatewayCall.Method, _ pattern: String,
        _ answer: @escaping @Sendable (GatewayCall) async throws -> JSONObject
    ) -> Route {
        Route(
            name, method, pattern, access: .judged { try judge($0) },
            bodyBytesMax: Self.bodyBytesMax,
            refusal: { error in
                var answer = error.envelope
                answer.headers += Self.crossOrigin
                return answer
            }
        ) { (call, _) in
            .json(.object(try await answer(call)), headers: Self.crossOrigin)
        }
    }

    private func preflight(_ pattern: String) -> Route {
        Route("registrations.options", .options, pattern, access: .anyone) { (_, _) in
            GatewayAnswer(
                status: 204,
                headers: Self.crossOrigin + [
                    ("access-control-allow-methods", "POST, PATCH, DELETE, OPTIONS"),
                    (
                        "access-control-allow-headers",
                        "accept, content-type, x-goog-api-key, x-goog-firebase-installations-auth, "
                            + "x-firebase-client"
                    ),
                    ("access-control-max-age", "3600"),
                ])
        }
    }

    private static let crossOrigin: [(name: String, value: String)] = [
        ("access-control-allow-origin", "*")
    ]

    // MARK: The head

    private func judge(_ call: GatewayCall) throws -> Route.Judgement {
        let credential = Self.credential(of: call)
        do throws(MartletError) {
            try broker.admit(credential, app: Self.app, in: project(of: call))
            return try broker.isOpen(project(of: call))
                ? .stranger : .other(name: project(of: call))
        } catch {
            guard error.word == .permissionDenied else { throw error }
            throw WrongCredential(kind: "registration key", refusal: error)
        }
    }

    /// The `apiKey` in the SDK's configuration. If it is a JSON Web Token, it is a ticket.
    private static func credential(of call: GatewayCall) -> RegistrationCredential {
        guard let text = call.header("x-goog-api-key") ?? call.parameter("key"), !text.isEmpty
        else { return .none }
        return text.split(separator: ".", omittingEmptySubsequences: false).count == 3
            ? .ticket(text) : .key(text)
    }

    /// The project in the path: its ID, or its sender ID, which some configurations of the SDK have there.
    private func project(of call: GatewayCall) throws(MartletError) -> String {
        try broker.projectID(named: call["project"])
    }

    private static func address(of call: GatewayCall) -> PeerAddress {
        call.peer.flatMap { PeerAddress($0) } ?? .loopback
    }

    // MARK: The subscription

    /// The subscription in a body. We must be able to send to it, so the page has to have subscribed with one of the
    /// project's keys.
    private func registration(in call: GatewayCall) throws -> WebClientRegistration {
        let origins = own?.configuration.origins ?? []
        let found = try WebClientRegistration(call.body, ownOrigins: origins)
        let keys = try broker.webPushKeys(of: project(of: call))
        guard let key = found.applicationKey else {
            throw WebClientRegistration.wrong(
                "web.applicationPubKey",
                "The page subscribed without a key of its own. Give getToken the project's vapidKey, "
                    + "which 'martlet webpush key list' prints.")
        }
        guard keys.contains(Base64URL.encode(key)) else {
            throw WebClientRegistration.wrong(
                "web.applicationPubKey",
                "The key is not one of the project's; 'martlet webpush key list' prints them.")
        }
        if let own, own.isOwn(found.endpoint), !own.takes(found.endpoint, of: key) {
            throw WebClientRegistration.wrong(
                "web.endpoint", "This push service did not give out the endpoint for the key.")
        }
        return found
    }
}
