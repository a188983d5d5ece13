// SPDX-License-Identifier: Apache-2.0
//
// The token endpoint, and what its tokens allow (GW-5, REG-5). Rests on MartletGateway.

import Foundation
import Martlet
import MartletClient
import MartletGateway
import Testing

extension OverHTTP {
    @Suite("Gateway: service accounts and access tokens", .serialized)
    struct TokenTests {
        private static let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"

        private func exchange(
            _ served: ServedGateway, _ assertion: String, grant: String = grant,
            path: String = "/token"
        ) throws -> HTTPPeer.Answer {
            let peer = try served.peer()
            peer.request(
                "POST", path, headers: [("Content-Type", "application/x-www-form-urlencoded")],
                "grant_type=\(grant)&assertion=\(assertion)")
            return try peer.answer()
        }

        private func status(_ served: ServedGateway, _ authorization: String) throws -> Int {
            let peer = try served.peer()
            peer.request(
                "POST", "/v1/projects/tides/messages:send",
                headers: [("Authorization", authorization)],
                #"{"message":{"topic":"t","data":{"a":"b"}},"validate_only":true}"#)
            let answer = try peer.answer()
            if answer.status == 401 {
                #expect(answer.json["error"]?["status"] == .string("UNAUTHENTICATED"))
                // GW-14: Java's SDK refreshes its token only where it is told this.
                let isPresented =
                    authorization.count > 7 && authorization.lowercased().hasPrefix("bearer ")
                #expect(
                    answer.headers["www-authenticate"]
                        == "Bearer realm=\"martlet\""
                        + (isPresented ? ", error=\"invalid_token\"" : ""))
            }
            return answer.status
        }

        private func token(_ served: ServedGateway, _ account: TestAccount) async throws -> String {
            let now = Double(served.broker.now.millisecondsSince1970) / 1000
            let answer = try exchange(served, try account.sign(account.claims(now: now)))
            #expect(answer.status == 200)
            return try #require(answer.json["access_token"]?.string)
        }

        @Test("GW-15 few requests at a time leave room for an exchange", arguments: [1, 2, 7, 8])
        func fewRequests(count: Int) async throws {
            try await ServedGateway.run({ $0.requestsMax = count }) { served in
                let account = try await served.newAccount()
                let token = try await token(served, account)
                #expect(try status(served, "Bearer " + token) == 200)
            }
        }

        @Test("GW-5 what an SDK signs becomes a token that sends, also over the binary protocol")
        func roundTrip() async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                #expect(account.members["type"] == .string("service_account"))
                #expect(account.members["project_id"] == .string("tides"))
                #expect(account.members["token_uri"] == .string(served.url + "/token"))
                let answer = try exchange(served, try account.sign(account.claims()))
                #expect(answer.status == 200)
                #expect(answer.json["expires_in"] == .integer(3600))
                #expect(answer.json["token_type"] == .string("Bearer"))
                let token = try #require(answer.json["access_token"]?.string)
                #expect(try status(served, "Bearer \(token)") == 200)
                let sender = MartletSender(
                    host: "127.0.0.1", port: Int(served.broker.port!), projectID: "tides",
                    serverKey: token)
                let sent = try await sender.send(
                    OutgoingMessage(to: .topic("t"), Message(data: ["a": "b"])))
                #expect(sent.messageID != nil)
                await sender.close()
            }
        }

        @Test(
            "GW-5 an assertion may be addressed to this gateway, or as some SDKs do whatever they ask"
        )
        func audiences() async throws {
            try await ServedGateway.run({ $0.tokenURLs = ["https://push.example.com/token"] }) {
                served in
                let account = try await served.newAccount()
                var claims = account.claims()
                for (audience, status) in [
                    ("https://oauth2.googleapis.com/token", 200), (served.url + "/token", 200),
                    ("https://push.example.com/token", 200),
                    ("https://accounts.google.com/o/oauth2/token", 200),
                    ("https://www.googleapis.com/oauth2/v4/token", 200),
                    (served.url + "/oauth2/v4/token", 200),
                    // What `Host` says proves nothing: the caller says it.
                    ("http://127.0.0.1/token", 400), ("https://elsewhere.example/token", 400),
                ] {
                    claims.aud = audience
                    let answer = try exchange(served, try account.sign(claims))
                    #expect(answer.status == status, "\(audience)")
                }
            }
        }

        @Test(
            "GW-5 the token address of a service account's file is accepted, also of a gateway on all addresses",
            arguments: ["0.0.0.0", "127.0.0.1"])
        func ownAddress(host: String) async throws {
            try await ServedGateway.run({
                $0.address.host = host
                $0.allowsPlainElsewhere = true
            }) { served in
                let account = try await served.newAccount()
                var claims = account.claims()
                claims.aud = served.gateway.tokenURL
                #expect(served.gateway.tokenURL == served.url + "/token")
                #expect(try exchange(served, try account.sign(claims)).status == 200)
            }
        }

        @Test(
            "GW-5 the token endpoints of older libraries are the same endpoint, and take JSON",
            arguments: ["/token", "/o/oauth2/token", "/oauth2/v4/token"])
        func olderLibraries(path: String) async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                let assertion = try account.sign(account.claims())
                let form = try exchange(served, assertion, path: path)
                #expect(form.status == 200 && form.json["access_token"]?.string != nil)
                for (grant, status) in [
                    ("urn:ietf:params:oauth:grant-type:jwt-bearer", 200), ("password", 400),
                ] {
                    let peer = try served.peer()
                    for mark in ["", "\u{FEFF}"] {
                        peer.request(
                            "POST", path,
                            headers: [("Content-Type", "application/json; charset=utf-8")],
                            mark + #"{"grant_type":"\#(grant)","assertion":"\#(assertion)"}"#)
                        #expect(try peer.answer().status == status)
                    }
                }
                let peer = try served.peer()
                peer.request("POST", path, headers: [("Content-Encoding", "br")], "x")
                let answer = try peer.answer()
                #expect(answer.status == 415 && answer.headers["accept-encoding"] == "gzip")
            }
        }

        @Test("GW-5 a credential may be the parameter access_token, and the header counts first")
        func parameter() async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                let good = try await token(served, account)
                for (query, headers, status) in [
                    ("access_token=\(good)", [], 200),
                    ("alt=json&access_token=\(served.serverKey)", [], 200),
                    ("access_token=nonsense", [], 401), ("access_token=", [], 401),
                    ("access_token=\(good)", [("Authorization", "Bearer nonsense")], 401),
                ] as [(String, [(String, String)], Int)] {
                    let peer = try served.peer()
                    peer.request(
                        "POST", "/v1/projects/tides/messages:send?" + query, headers: headers,
                        #"{"message":{"topic":"t"},"validate_only":true}"#)
                    #expect(try peer.answer().status == status, "\(query)")
                }
            }
        }

        @Test("GW-5 a JWT that its sender signed is a bearer token, until it or the key ends")
        func selfSigned() async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                var claims = account.claims()
                for (audience, expected) in [
                    ("https://fcm.googleapis.com/", 200), ("https://fcm.googleapis.com", 200),
                    ("https://iid.googleapis.com/", 200), (served.url + "/", 200),
                    ("https://elsewhere.example/", 401),
                    // An assertion for the token endpoint is no bearer token.
                    ("https://oauth2.googleapis.com/token", 401),
                ] {
                    claims.aud = audience
                    claims.scope = nil
                    claims.sub = claims.iss
                    let token = try account.sign(claims)
                    #expect(try status(served, "Bearer " + token) == expected, "\(audience)")
                }
                claims.aud = "https://fcm.googleapis.com/"
                let good = try account.sign(claims)
                let forged = good.dropLast(4) + (good.hasSuffix("AAAA") ? "BBBB" : "AAAA")
                #expect(try status(served, "Bearer " + forged) == 401)
                for subject in [nil, "", "other@tides.iam.gserviceaccount.com"] as [String?] {
                    var foreign = claims
                    foreign.sub = subject
                    let token = try account.sign(foreign)
                    #expect(try status(served, "Bearer " + token) == 401)
                }
                var old = claims
                (old.iat, old.exp) = (claims.iat - 7200, claims.iat - 3700)
                #expect(try status(served, "Bearer " + (try account.sign(old))) == 401)
                try await served.broker.revokeServiceAccount(account.file.keyID, in: "tides")
                #expect(try status(served, "Bearer " + good) == 401)
            }
        }

        @Test("GW-14 an assertion without kid is checked by its issuer")
        func noKeyID() async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                let other = try await served.newAccount()
                #expect(
                    try exchange(served, try account.sign(account.claims(), keyID: "")).status
                        == 200)
                // Neither another's name nor a project that is not there helps anybody.
                for issuer in [
                    other.file.clientEmail, "x@tides.iam.gserviceaccount.com",
                    "x@nowhere.iam.gserviceaccount.com", "x@example.com", "",
                ] {
                    var claims = account.claims()
                    claims.iss = issuer
                    let answer = try exchange(served, try account.sign(claims, keyID: ""))
                    #expect(answer.status == 400, "\(issuer)")
                    #expect(answer.json["error"] == .string("invalid_grant"))
                }
                try await served.broker.revokeServiceAccount(account.file.keyID, in: "tides")
                #expect(
                    try exchange(served, try account.sign(account.claims(), keyID: "")).status
                        == 400)
            }
        }

        @Test("GW-5 an assertion that is not in order is refused, and says why")
        func refusedAssertions() async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                let other = try await served.newAccount()
                let unknown = TestAccount(
                    try ServiceAccountFile(projectID: "tides", tokenURI: served.url))
                let now = Date().timeIntervalSince1970
                func changed(_ change: (inout TestAccount.Claims) -> Void) throws -> String {
                    var claims = account.claims()
                    change(&claims)
                    return try account.sign(claims)
                }
                var cases = [
                    ("another's name", try changed { $0.iss = other.file.clientEmail }),
                    (
                        "expired",
                        try changed {
                            $0.iat = now - 7200
                            $0.exp = now - 3600
                        }
                    ),
                    (
                        "from the future",
                        try changed {
                            $0.iat = now + 3600
                            $0.exp = now + 7200
                        }
                    ),
                    ("a day long", try changed { $0.exp = now + 86_400 }),
                    ("never valid", try changed { $0.exp = $0.iat - 1 }),
                    ("not valid yet", try changed { $0.nbf = now + 1800 }),
                    (
                        "an extension",
                        try account.sign(account.claims(), ["crit": .array([.string("x")])])
                    ),
                    (
                        "too long",
                        try changed { $0.scope! += String(repeating: " x", count: 4096) }
                    ),
                    ("unknown key", try unknown.sign(unknown.claims())),
                    (
                        "signed with another key",
                        try other.sign(account.claims(), keyID: account.file.keyID)
                    ),
                    ("no JWT", "a.b.c"),
                    ("nothing of three", "abc"),
                ]
                let good = try account.sign(account.claims())
                let parts = good.split(separator: ".")
                cases.append(("unsigned", "\(parts[0]).\(parts[1])."))
                // {"alg":"none","kid":…}
                let none = Data(#"{"alg":"none","kid":"\#(account.file.keyID)"}"#.utf8)
                    .base64EncodedString().replacingOccurrences(of: "=", with: "")
                cases.append(("without an algorithm", "\(none).\(parts[1])."))
                for (what, assertion) in cases {
                    let answer = try exchange(served, assertion)
                    #expect(answer.status == 400, "\(what)")
                    #expect(answer.json["error"] == .string("invalid_grant"), "\(what)")
                    #expect(answer.json["error_description"]?.string?.isEmpty == false, "\(what)")
                }
                let scope = try exchange(
                    served, try changed { $0.scope = "https://www.googleapis.com/auth/drive" }
                )
                #expect(scope.json["error"] == .string("invalid_scope"))
                let grant = try exchange(served, good, grant: "password")
                #expect(grant.json["error"] == .string("unsupported_grant_type"))
                #expect(try exchange(served, "").json["error"] == .string("invalid_request"))
                #expect(try exchange(served, good).status == 200)
            }
        }

        @Test("GW-5 GW-6 a token endpoint that cannot answer for now says when to come back")
        func unavailable() async throws {
            try await TestFolder.withBroker { broker in
                let full = GatewayError(
                    MartletError(.unavailable, "Full.", retryDelayMilliseconds: 1500))
                let gateway = Gateway(broker, .init(), fault: { _ in full })
                let call = try #require(GatewayCall(.post, target: "/token"))
                let answer = await gateway.answer(call)
                #expect(answer.status == 503)
                #expect(answer.headers.first { $0.name == "retry-after" }?.value == "2")
                let text = String(decoding: answer.body, as: UTF8.self)
                #expect(
                    try JSONValue(parsing: text)["error"] == .string("temporarily_unavailable"))
            }
        }

        @Test("REG-5 an access token ends after its life")
        func expiry() async throws {
            let clock = TestClock()
            try await ServedGateway.run(clock: clock, { $0.accessTokenSeconds = 60 }) { served in
                let account = try await served.newAccount()
                let token = try await token(served, account)
                #expect(try status(served, "Bearer \(token)") == 200)
                clock.advance(seconds: 59)
                #expect(try status(served, "Bearer \(token)") == 200)
                clock.advance(seconds: 1)
                #expect(try status(served, "Bearer \(token)") == 401)
            }
        }

        @Test("REG-5 an access token ends at once with the key it was minted from")
        func revocation() async throws {
            try await ServedGateway.run { served in
                let account = try await served.newAccount()
                let token = try await token(served, account)
                #expect(try status(served, "Bearer \(token)") == 200)
                try await served.broker.revokeServiceAccount(account.file.keyID, in: "tides")
                #expect(try status(served, "Bearer \(token)") == 401)
                let again = try exchange(served, try account.sign(account.claims()))
                #expect(again.json["error"] == .string("invalid_grant"))
                #expect(
                    try await served.broker.serviceAccounts(in: "tides").map(\.isRevoked) == [true])
            }
        }

        @Test("REG-5 a forged or foreign credential, and a device's, let nobody send")
        func refusedCredentials() async throws {
            try await TestFolder.withBroker { elsewhere in
                _ = try await elsewhere.createProject("tides")
                try await ServedGateway.run { served in
                    let account = try await served.newAccount()
                    let token = try await token(served, account)
                    try await elsewhere.createServiceAccount(
                        keyID: account.file.keyID, named: "", clientEmail: account.file.clientEmail,
                        publicKey: account.file.publicKey, in: "tides")
                    let foreign = try elsewhere.mintAccessToken(for: account.file.keyID)
                    let device = try await served.broker.register(
                        app: "com.example.tides", platform: .android, in: "tides")
                    _ = try await served.broker.createProject("other")
                    let other = try await served.newAccount(in: "other")
                    let otherToken = try await self.token(served, other)
                    let flipped = token.dropLast() + (token.hasSuffix("A") ? "E" : "A")
                    let parts = token.split(separator: ".")
                    for credential in [
                        String(flipped), foreign, device.token, device.deviceKey, "", "mat1.",
                        "mat1..",
                        "\(parts[0]).\(parts[1])", "\(parts[0]).\(parts[2]).\(parts[1])",
                        served.broker.administratorKey,
                    ] {
                        #expect(
                            try status(served, "Bearer \(credential)") == 401, "\(credential.count)"
                        )
                    }
                    #expect(try status(served, token) == 401)
                    #expect(try status(served, "Basic \(token)") == 401)
                    #expect(try status(served, "key=\(served.serverKey)") == 401)
                    #expect(try status(served, "Bearer \(served.serverKey)") == 200)
                    #expect(try status(served, "Bearer \(otherToken)") == 403)
                    #expect(try status(served, "bearer \(token)") == 200)
                }
            }
        }

        @Test("REG-5 tokens outlive the broker's process, and what signs them is its owner's alone")
        func restart() async throws {
            let folder = TestFolder()
            var kept = ""
            try await ServedGateway.run(in: folder) { served in
                kept = try await token(served, try await served.newAccount())
            }
            let secret = folder.url.appending(path: "token.key").path
            let mode = try FileManager.default.attributesOfItem(atPath: secret)[.posixPermissions]
            #expect((mode as? NSNumber)?.intValue == 0o600)
            try await ServedGateway.run(in: folder) { served in
                let status = try status(served, "Bearer \(kept)")
                #expect(status == 200)
            }
            try FileManager.default.removeItem(atPath: secret)
            try await ServedGateway.run(in: folder) { served in
                let status = try status(served, "Bearer \(kept)")
                #expect(status == 401)
            }
        }
    }
}
