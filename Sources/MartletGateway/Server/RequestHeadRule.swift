// SPDX-License-Identifier: Apache-2.0
//
// Refuses HTTP/1.1 request heads before anything of the request is carried out (GW-1). Two servers on the way may read such a
// head differently, and then one of them takes a part of a body for a request. Source: RFC 9112, sections 3.2 and 6.1. The
// parser below refuses the rest: several lengths, or a length beside a transfer coding. Rests on NIO.

import NIOHTTP1

/// Judges a head of HTTP/1.0 or HTTP/1.1.
enum RequestHeadRule {
    /// The status with which the request is refused; nil: the request may be carried out.
    static func refusal(of head: HTTPRequestHead) -> HTTPResponseStatus? {
        let hosts = head.headers["host"]
        guard hosts.count == 1 || hosts.isEmpty && head.version.minor == 0 else {
            return .badRequest
        }
        guard hosts.allSatisfy(isHost) else { return .badRequest }
        return head.headers.contains(name: "transfer-encoding") ? refusalOfCodings(in: head) : nil
    }

    /// A body in another coding than `chunked` would be taken for the content itself.
    private static func refusalOfCodings(in head: HTTPRequestHead) -> HTTPResponseStatus? {
        guard head.version.minor > 0 else { return .badRequest }
        let codings = head.headers[canonicalForm: "transfer-encoding"].map { $0.lowercased() }
        guard codings.allSatisfy({ $0 == "chunked" }) else { return .notImplemented }
        return codings.count == 1 ? nil : .badRequest
    }

    /// Whether a value can be a host and a port. An empty one stands for a target without a host.
    private static func isHost(_ value: String) -> Bool {
        value.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: hostMarks.contains(byte)
            }
        }
    }

    /// Source: RFC 3986, section 3.2.2.
    private static let hostMarks = Array("-._~!$&'()*+,;=%:[]".utf8)
}
