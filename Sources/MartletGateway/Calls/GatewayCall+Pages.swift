// SPDX-License-Identifier: Apache-2.0
//
// Page size and page token of list calls. A page token is the place at which a list continues, encoded so that
// callers read no meaning into the text. Rests on GatewayCall.

import Martlet

extension GatewayCall {
    /// The page size of the call. 0 or no size means `default`; a size above `max` means `max`.
    /// - Throws: INVALID_ARGUMENT if the size is not a whole number from 0 on.
    func pageSize(default: Int, max: Int) throws(GatewayError) -> Int {
        guard let text = parameter("pageSize") ?? parameter("page_size") else { return `default` }
        guard let size = Int32(text), size >= 0 else {
            throw GatewayError(
                .invalidArgument, "The page size is a whole number from 0 on.",
                violations: [.init("page_size", "It is not valid.")])
        }
        return size == 0 ? `default` : min(Int(size), max)
    }

    /// The place at which the list continues; empty for the beginning of the list.
    /// - Throws: INVALID_ARGUMENT for a token with broken encoding.
    var pageStart: String {
        get throws(GatewayError) {
            let token = parameter("pageToken") ?? parameter("page_token") ?? ""
            guard let start = Base64URL.decode(token) else { throw .badPageToken }
            return String(decoding: start, as: UTF8.self)
        }
    }

    /// Encodes the place at which the list continues.
    static func pageToken(_ start: String) -> JSONValue {
        .string(Base64URL.encode(Array(start.utf8)))
    }
}

extension GatewayError {
    static var badPageToken: GatewayError {
        GatewayError(
            .invalidArgument, "The page token is not one that a page ended with.",
            violations: [.init("page_token", "It is not valid.")])
    }
}
