// SPDX-License-Identifier: Apache-2.0
//
// `/fcm/send`, the interface before v1 (GW-4). Its answers have their own form: a result for each token, a number for
// a topic or condition, counts for a group. Rests on LegacyRequest.

import Martlet

extension Route {
    /// Also at the path from before the name FCM.
    static let legacy = ["fcm/send", "gcm/send"].map { path in
        Route(
            "fcm/send", .post, path, access: .bearerOrKey, isSending: true,
            refusal: { $0.legacyAnswer }
        ) { (call, gateway) in
            if let sender = call.header("project_id"), try !call.identified.isOf(sender) {
                throw GatewayError(
                    .permissionDenied,
                    "The header project_id names another sender than the credential's.")
            }
            let isForm = call.hasContentType("application/x-www-form-urlencoded")
            let request = try await gateway.reading(call) { (call) throws(GatewayError) in
                isForm ? try LegacyRequest(form: call.body) : try LegacyRequest(body: call.body)
            }
            let answer = try await answer(to: request, call, gateway)
            return isForm ? answer.inPlainText : answer
        }
    }

    private static func answer(
        to request: LegacyRequest, _ call: GatewayCall, _ gateway: Gateway
    ) async throws -> GatewayAnswer {
        do {
            return try await gateway.send(request.message, of: call) { request.answer($0) }
        } catch let error as MartletError {
            if try gateway.isOfEndedGroup(error, request.message, of: call) {
                return .json(.object(["success": .integer(0), "failure": .integer(0)]))
            }
            return try request.answer(error)
        }
    }
}

extension GatewayAnswer {
    /// The answer to a form: `id=…` or `Error=…`, or for a group a line for each number.
    fileprivate var inPlainText: GatewayAnswer {
        guard let value = try? JSONValue(parsing: body), case .object(let members) = value else {
            return self
        }
        var result = members
        if case .array(let results)? = members["results"], case .object(let first)? = results.first
        {
            result = first
        }
        let lines = result.map { name, value in
            switch name {
            case "message_id": "id=\(value.plainText)"
            case "error": "Error=\(value.plainText)"
            default: "\(name)=\(value.plainText)"
            }
        }
        return .text(lines.joined(separator: "\n") + "\n", status: status)
    }
}

extension LegacyRequest {
    fileprivate func answer(_ receipt: SendReceipt) -> GatewayAnswer {
        let number = receipt.messageID.flatMap { $0.split(separator: "/").last } ?? "0"
        let messageID = JSONValue.string(
            message.validateOnly ? "fake_message_id" : "0:\(number)")
        switch recipients {
        case .many:
            return .json(.object(["message_id": .integer(Int64(number) ?? 0)]))
        case .one:
            // Only a group's receipt has tokens.
            guard let tokens = receipt.tokens else {
                return Self.answer([.object(["message_id": messageID])])
            }
            var members: JSONObject = [
                "success": .integer(Int64(tokens.successCount)),
                "failure": .integer(Int64(tokens.failures.count)),
            ]
            if !tokens.failures.isEmpty {
                members["failed_registration_ids"] = .array(
                    tokens.failures.map { .string($0.token) })
            }
            return .json(.object(members))
        case .tokens(let list):
            var results = [JSONValue](
                repeating: .object(["message_id": messageID]), count: list.count)
            for failure in receipt.tokens?.failures ?? [] {
                guard let index = failure.index else { continue }
                let word = MartletError(failure.word, "", field: "token").legacyWord
                results[index] = .object(["error": .string(word)])
            }
            return Self.answer(results)
        }
    }

    /// The answer to a refused send.
    /// - Throws: UNAVAILABLE and INTERNAL, because both refuse the whole request.
    fileprivate func answer(_ error: MartletError) throws(GatewayError) -> GatewayAnswer {
        if error.word == .unavailable || error.word == .internal { throw GatewayError(error) }
        let result = JSONValue.object(["error": .string(error.legacyWord)])
        switch recipients {
        case .many: return .json(result)
        case .one: return Self.answer([result])
        case .tokens(let list): return Self.answer(Array(repeating: result, count: list.count))
        }
    }

    static func answer(_ results: [JSONValue]) -> GatewayAnswer {
        let failures = results.count { $0["error"] != nil }
        return .json(
            .object([
                "multicast_id": .integer(.random(in: 1...Int64.max)),
                "success": .integer(Int64(results.count - failures)),
                "failure": .integer(Int64(failures)), "canonical_ids": .integer(0),
                "results": .array(results),
            ]))
    }
}

extension MartletError {
    /// The error's word in the legacy interface.
    package var legacyWord: String {
        switch word {
        case .unregistered: "NotRegistered"
        case .senderIDMismatch: "MismatchSenderId"
        case .quotaExceeded: "DeviceMessageRateExceeded"
        case .resourceExhausted, .tooManyTopics: "TopicsMessageRateExceeded"
        case .internal: "InternalServerError"
        case .thirdPartyAuthError: "InvalidApnsCredential"
        case .invalidArgument: legacyWordOfField
        default: "Unavailable"
        }
    }

    private var legacyWordOfField: String {
        if field.hasSuffix("restricted_package_name") { return "InvalidPackageName" }
        let times = ["time_to_live", "ttl", "apns-expiration", "TTL"]
        if times.contains(where: { field.hasSuffix($0) }) { return "InvalidTtl" }
        if field.hasSuffix(".data") { return "InvalidDataKey" }
        if field == "message" || field.hasPrefix("message.") { return "MessageTooBig" }
        let isToken = field.hasPrefix("to") && !field.hasPrefix("topic")
        return isToken ? "InvalidRegistration" : "InvalidParameters"
    }
}

extension GatewayError {
    /// The refusal as status and a text for people.
    fileprivate var legacyAnswer: GatewayAnswer {
        var answer = GatewayAnswer.text(cause?.message ?? message, status: httpStatus)
        answer.headers += headers
        return answer
    }
}
