// SPDX-License-Identifier: Apache-2.0
//
// Imports tokens of Apple's push service (GW-11): each gets a registration token, and a token that was imported before
// gets the same registration token. Rests on RequestField.

import Martlet
import MartletRows

/// The body of an import: `{"application": "BUNDLE", "sandbox": false, "apns_tokens": […]}`.
struct AppleImport {
    /// GW-11: tokens of a request. Source: Instance ID server reference, "Create registration tokens for APNs tokens".
    static let tokensMax = 100

    private var bundle: String
    private var isSandbox: Bool
    private var tokens: [String]
    private var project: String

    init(_ call: GatewayCall) throws(GatewayError) {
        project = try call.identified.projectID
        var body = try RequestObject(body: call.body)
        guard let application = try body.take("application") else {
            throw GatewayError.invalid("The field application is missing.", field: "application")
        }
        bundle = try application.text()
        isSandbox = try body.take("sandbox")?.flag() ?? false
        guard let list = try body.take("apns_tokens") else {
            throw GatewayError.invalid("The field apns_tokens is missing.", field: "apns_tokens")
        }
        tokens = []
        for element in try list.elements() { tokens.append(try element.text()) }
        guard (1...Self.tokensMax).contains(tokens.count) else {
            throw GatewayError.invalid(
                "An import has 1 to \(Self.tokensMax) tokens.", field: "apns_tokens")
        }
        try body.finish()
    }

    func run(in gateway: Gateway) async throws -> GatewayAnswer {
        var results: [JSONValue] = []
        for token in tokens {
            var result: JSONObject = ["apns_token": .string(token)]
            do throws(MartletError) {
                let found = try await registration(of: token, in: gateway.broker)
                result["status"] = .string("OK")
                result["registration_token"] = .string(found.text)
            } catch {
                // A fault of the whole request is no fault of one token.
                guard error.word == .resourceExhausted || error.field.hasPrefix("apns_token")
                else { throw error }
                result["status"] = .string(
                    error.word == .invalidArgument
                        ? "Invalid APNs token" : "Resource exhausted: \(error.message)")
            }
            results.append(.object(result))
        }
        return .json(.object(["results": .array(results)]))
    }

    private func registration(
        of text: String, in broker: Broker
    ) async throws(MartletError) -> Token {
        guard let bytes = Self.bytes(text) else {
            throw MartletError(
                .invalidArgument, "A token of APNs is a text of hexadecimal digits.",
                field: "apns_tokens")
        }
        return try await broker.registerBridged(
            .apns(APNsAddress(token: bytes, isSandbox: isSandbox, bundle: bundle)), app: bundle,
            platform: .apple, in: project)
    }

    /// The bytes of a text of hexadecimal digits.
    private static func bytes(_ text: String) -> [UInt8]? {
        let digits = text.compactMap { $0.isASCII ? $0.hexDigitValue : nil }
        guard digits.count == text.count, digits.count.isMultiple(of: 2), !digits.isEmpty else {
            return nil
        }
        return stride(from: 0, to: digits.count, by: 2).map {
            UInt8(digits[$0] << 4 | digits[$0 + 1])
        }
    }
}
