// SPDX-License-Identifier: Apache-2.0
//
// What callers of lists say of pages. A page token is the place where a list goes on, written so that
// nobody reads a meaning into it. Rests on GatewayCall.

import Martlet

extension GatewayCall {
    /// 0 is the default, and more than the largest is the largest.
    /// - Throws: INVALID_ARGUMENT.
    func pageSize(default: Int, max: Int) throws(GatewayError) -> Int {
        guard let text = parameter("pageSize") ?? parameter("page_size") else { return `default` }
        guard let size = Int32(text), size >= 0 else {
            throw GatewayError(
                .invalidArgument, "The page size is a whole number from 0 on.",
                violations: [.init("page_size", "It is not valid.")])
        }
        return size == 0 ? `default` : min(Int(size), max)
    }

    /// Where the list goes on; empty for its beginning.
    /// - Throws: INVALID_ARGUMENT.
    var pageStart: String {
        get throws(GatewayError) {
            let token = parameter("pageToken") ?? parameter("page_token") ?? ""
            guard let start = Base64URL.decode(token) else { throw .badPageToken }
            return String(decoding: start, as: UTF8.self)
        }
    }

    /// The token of the page with which the list goes on there.
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
