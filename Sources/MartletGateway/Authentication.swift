// SPDX-License-Identifier: Apache-2.0
//
// The caller behind a request (REG-5, GW-5): the gateway checks the credential in `Authorization` against a snapshot
// of the store on every call. Rests on Broker.

import Martlet

extension Gateway {
    /// Finds the caller by the credential in `Authorization`.
    /// - Parameter allowsKey: whether `key=SERVER_KEY` is accepted too.
    /// - Throws: UNAUTHENTICATED for a missing credential, `WrongCredential` for a refused credential; other errors of the
    ///   broker pass on.
    func authenticate(_ call: GatewayCall, allowsKey: Bool) throws -> Caller {
        guard let header = call.header("authorization") else {
            throw GatewayError(.unauthenticated, GatewayError.noCredential)
        }
        let credential: Substring
        let isKey = header.prefix(4).lowercased() == "key="
        if header.prefix(7).lowercased() == "bearer " {
            credential = header.dropFirst(7)
        } else if allowsKey, isKey {
            credential = header.dropFirst(4)
        } else {
            throw GatewayError(.unauthenticated, GatewayError.noCredential)
        }
        guard credential.utf8.count <= Limits.httpCredentialBytesMax else {
            throw GatewayError(.unauthenticated, GatewayError.badCredential)
        }
        do throws(MartletError) {
            let sender = try broker.sender(presenting: String(credential))
            return Caller(
                projectID: sender.project.id, senderID: sender.project.senderID,
                credential: sender.isAccessToken ? .accessToken : .serverKey,
                keyID: sender.keyID)
        } catch {
            guard error.word == .unauthenticated else { throw GatewayError(error) }
            throw WrongCredential(
                kind: isKey ? "server key" : "bearer token",
                refusal: GatewayError(
                    .unauthenticated, GatewayError.badCredential, cause: error))
        }
    }
}

extension GatewayError {
    static let noCredential =
        "Request is missing required authentication credential. Expected OAuth 2 access token, login "
        + "cookie or other valid authentication credential. See "
        + "https://developers.google.com/identity/sign-in/web/devconsole-project."
    static let badCredential =
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
        + "or other valid authentication credential. See "
        + "https://developers.google.com/identity/sign-in/web/devconsole-project."
}
