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
        guard let header = call.authorization,
            let (credential, isKey) = Self.credential(in: header), allowsKey || !isKey
        else { throw GatewayError(.unauthenticated, GatewayError.noCredential) }
        guard credential.utf8.count <= Self.bytesMax(of: credential) else {
            throw GatewayError(.unauthenticated, GatewayError.badCredential)
        }
        do { return try caller(presenting: credential) } catch let error as MartletError {
            guard error.word == .unauthenticated else { throw GatewayError(error) }
            throw WrongCredential(
                kind: isKey ? "server key" : "bearer token",
                refusal: GatewayError(
                    .unauthenticated, GatewayError.badCredential, cause: error))
        }
    }

    /// GW-15: whether a value of `Authorization` is a right credential of any project. Nothing is logged or counted.
    func recognises(_ header: String) -> Bool {
        guard let (credential, _) = Self.credential(in: header),
            credential.utf8.count <= Self.bytesMax(of: credential)
        else { return false }
        return (try? caller(presenting: credential)) != nil
    }

    private func caller(presenting credential: Substring) throws -> Caller {
        if Self.isSelfSigned(credential) { return try sender(signing: String(credential)) }
        let sender = try broker.sender(presenting: String(credential))
        return Caller(
            projectID: sender.project.id, senderID: sender.project.senderID,
            credential: sender.isAccessToken ? .accessToken : .serverKey, keyID: sender.keyID)
    }

    /// Whether a credential is a JSON Web Token, which its sender signed (AIP-4111). No key and no access token begins
    /// as the JSON of its header does.
    private static func isSelfSigned(_ credential: Substring) -> Bool {
        credential.hasPrefix("eyJ") && credential.utf8.count { $0 == UInt8(ascii: ".") } == 2
    }

    private static func bytesMax(of credential: Substring) -> Int {
        isSelfSigned(credential) ? Assertion.bytesMax : Limits.httpCredentialBytesMax
    }

    /// GW-15: whether the target of a request has a right credential of any project as its `access_token`.
    func recognises(target: String) -> Bool {
        guard target.contains("access_token="), let call = GatewayCall(.get, target: target),
            let presented = call.authorization
        else { return false }
        return recognises(presented)
    }

    /// GW-15: whether a request has a right credential of a sender, or of a door.
    /// - Parameter header: the value of a header by its name in lower case.
    func recognises(_ header: (_ name: String) -> String?) -> Bool {
        if let presented = header("authorization"), recognises(presented) { return true }
        return doors.contains { $0.recognises(header) }
    }

    private static func credential(in header: String) -> (text: Substring, isKey: Bool)? {
        // RFC 9110, section 11.4: one blank or more.
        if header.prefix(7).lowercased() == "bearer " {
            return (header.dropFirst(7).drop { $0 == " " }, false)
        }
        if header.prefix(4).lowercased() == "key=" { return (header.dropFirst(4), true) }
        return nil
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
