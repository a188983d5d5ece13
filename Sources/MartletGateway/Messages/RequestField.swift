// SPDX-License-Identifier: Apache-2.0
//
// Reads the JSON of v1 requests field by field. Names have two spellings, null means absent, and refusals use the
// words known to callers of v1. Source: the JSON form of protocol buffers. Rests on JSONValue and SharedFields.

import Martlet

/// A value and its path in the request. The path is in snake_case, also for a request in lowerCamelCase.
package struct RequestField: MessageField {
    var value: JSONValue
    var path: String

    package func text() throws(GatewayError) -> String {
        guard case .string(let text) = value else { throw mistyped("TYPE_STRING") }
        return text
    }

    func flag() throws(GatewayError) -> Bool {
        guard case .bool(let flag) = value else { throw mistyped("TYPE_BOOL") }
        return flag
    }

    /// A whole number, written as a number or as a text.
    func integer() throws(GatewayError) -> Int32 {
        switch value {
        case .integer(let number):
            if let number = Int32(exactly: number) { return number }
        case .number(let number):
            if let number = Int32(exactly: number.value) { return number }
        case .string(let text):
            if let number = Int32(text) { return number }
        default: break
        }
        throw mistyped("TYPE_INT32")
    }

    /// A number, written as a number or as a text.
    func fraction() throws(GatewayError) -> Double {
        switch value {
        case .integer(let number): return Double(number)
        case .number(let number): return number.value
        case .string(let text):
            if let number = Double(text), number.isFinite { return number }
        default: break
        }
        throw mistyped("TYPE_FLOAT")
    }

    /// Reads a name of an enum type in any case, and returns the type's spelling.
    func choice(_ type: String, _ names: [String], prefix: String = "") throws(GatewayError)
        -> String
    {
        if case .string(let text) = value {
            let upper = text.uppercased()
            if let name = names.first(where: { $0 == upper || $0 == prefix + upper }) {
                return name
            }
        }
        throw mistyped(Self.messageType + type)
    }

    /// A duration: seconds with at most nine digits behind the point, and the suffix `s`.
    func duration() throws(GatewayError) -> String {
        let text = try text()
        let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
        let isDuration =
            text.hasSuffix("s") && (1...2).contains(parts.count)
            && parts.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy { (48...57).contains($0) } }
            && (parts.count == 1 || parts[1].utf8.count <= 9)
        guard isDuration else {
            throw mistyped("type.googleapis.com/google.protobuf.Duration")
        }
        return text
    }

    func elements() throws(GatewayError) -> [RequestField] {
        guard case .array(let elements) = value else { throw mistyped("TYPE_LIST") }
        return elements.enumerated().map {
            RequestField(value: $0.element, path: "\(path)[\($0.offset)]")
        }
    }

    /// The entries of a map of texts, in the order of keys.
    package func entries() throws(GatewayError) -> [Message.DataEntry] {
        guard case .object(let members) = value else { throw mistyped("TYPE_MAP") }
        var entries: [Message.DataEntry] = []
        for (key, value) in members {
            let field = RequestField(value: value, path: "\(path)[\(entries.count)].value")
            entries.append(.init(key: key, value: try field.text()))
        }
        return entries
    }

    func object(_ type: String) throws(GatewayError) -> RequestObject {
        guard case .object(let members) = value else { throw mistyped(Self.messageType + type) }
        return RequestObject(members: members, path: path)
    }

    /// A map of headers, with names in lower case.
    /// - Throws: INVALID_ARGUMENT for a header that is there twice: a map of JSON keeps `TTL` and `ttl` apart, and the
    ///   header is one.
    func headers(_ type: String) throws(GatewayError) -> RequestObject {
        guard case .object(let members) = value else { throw mistyped(Self.messageType + type) }
        var headers = JSONObject()
        for (name, value) in members {
            let lower = name.lowercased()
            guard headers.updateValue(value, forKey: lower) == nil else {
                throw RequestField(value: value, path: "\(path).\(lower)").refusal(
                    "The header \(lower) is there twice; names of headers are the same in any case."
                )
            }
        }
        return RequestObject(members: headers, path: path)
    }

    /// An object with free members.
    func members() throws(GatewayError) -> RequestObject {
        guard case .object(let members) = value else {
            throw mistyped("type.googleapis.com/google.protobuf.Struct")
        }
        return RequestObject(members: members, path: path)
    }

    private static let messageType = "type.googleapis.com/google.firebase.fcm.v1."

    func mistyped(_ type: String) -> GatewayError {
        refusal(
            "Invalid value at '\(path)' (\(type)), \(value.shortText)", code: nil)
    }

    /// Refuses a value of the right type with wrong content.
    func refusal(
        _ message: String, code: GatewayError.Code?
    ) -> GatewayError {
        GatewayError(
            .invalidArgument, message, code: code, violations: [.init(path, message)])
    }

    package func refusal(_ message: String) -> GatewayError {
        refusal(message, code: .invalidArgument)
    }
}

/// Takes the fields of an object one by one; `finish` refuses the remaining fields.
package struct RequestObject: MessageObject {
    private var members: JSONObject
    var path: String

    package init(members: JSONObject, path: String) {
        self.members = members
        self.path = path
    }

    private func place(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    /// Takes a field by its name in snake_case or lowerCamelCase; nil for an absent field or null.
    /// - Throws: INVALID_ARGUMENT if the object has both spellings.
    package mutating func take(_ name: String) throws(GatewayError) -> RequestField? {
        let camel = name.inCamelCase
        let first = members.removeValue(forKey: name)
        let second = camel == name ? nil : members.removeValue(forKey: camel)
        if first != nil, second != nil {
            throw RequestField(value: .null, path: place(name)).refusal(
                "Invalid value at '\(place(name))': it is there as \(name) and as \(camel).",
                code: nil)
        }
        guard let value = first ?? second, value != .null else { return nil }
        return RequestField(value: value, path: place(name))
    }

    /// Takes a header out of `RequestField.headers`, by its name in any case.
    mutating func takeHeader(_ name: String) -> RequestField? {
        members.removeValue(forKey: name.lowercased())
            .map { RequestField(value: $0, path: place(name)) }
    }

    /// Takes all remaining members, in the order of names.
    package mutating func rest() -> [(name: String, field: RequestField)] {
        defer { members = JSONObject() }
        return members.map { ($0.key, RequestField(value: $0.value, path: place($0.key))) }
    }

    func finish() throws(GatewayError) {
        guard let unknown = members.names.first else { return }
        let place = path.isEmpty ? "" : " at '\(path)'"
        let message =
            "Invalid JSON payload received. Unknown name \"\(unknown.prefix(64))\"\(place): Cannot "
            + "find field."
        throw GatewayError(
            .invalidArgument, message, violations: [.init(path, message)])
    }
}

extension RequestObject {
    /// Parses the body of a request; an empty body counts as `{}`.
    init(body: [UInt8]) throws(GatewayError) {
        let value: JSONValue
        do {
            value = try JSONValue(
                document: body.isEmpty ? Array("{}".utf8) : body, repeatedNames: .takeLast)
        } catch {
            throw GatewayError(
                .invalidArgument,
                "Invalid JSON payload received. At byte \(error.byteOffset): \(error.message).")
        }
        guard case .object(let members) = value else {
            throw GatewayError(
                .invalidArgument, "Invalid JSON payload received. It takes an object.",
                violations: [])
        }
        self.init(members: members, path: "")
    }
}

extension JSONValue {
    /// The value as a refusal repeats it: whole up to 64 bytes, else the first 60 characters.
    fileprivate var shortText: String {
        let text = text
        return text.utf8.count <= 64 ? text : String(text.prefix(60)) + "…"
    }
}
