// SPDX-License-Identifier: Apache-2.0
//
// Refuses request heads before anything of the request is carried out (GW-1). Two servers on the way may read such a head
// differently, and then one of them takes a part of a body for a request, or asks another host or for another sender than
// the other has let pass. Sources: RFC 9112, sections 3.2 and 6.1; RFC 9113, section 8.3.1. The parsers below refuse the rest:
// several lengths, or a length beside a transfer coding. Rests on NIO.

import HTTPTypes
import NIOHTTP1

/// Judges the head of a request.
enum RequestHeadRule {
    /// Judges a head that the parser of any version has taken.
    /// - Parameters:
    ///   - isStream: whether the head is one of HTTP/2, which is spoken over TLS alone.
    ///   - isProxy: whether a proxy sent the head. A proxy may tell the scheme of its client's connection.
    /// - Returns: why the request is refused; nil: the request may be carried out.
    static func fault(in head: HTTPRequest, isStream: Bool, isProxy: Bool) -> String? {
        if head.headerFields.count(where: { $0.name == .authorization }) > 1 {
            return "A request has one field 'Authorization'."
        }
        guard isStream else { return nil }
        let hosts = head.headerFields.filter { $0.name.canonicalName == "host" }.map(\.value)
        let named = head.authority ?? hosts.first ?? ""
        guard hosts.count <= 1, hosts.first ?? named == named, isHost(named) else {
            return "A request names one host, in ':authority' or 'Host'."
        }
        let isOfConnection = head.scheme.map { $0 == "https" || $0 == "http" && isProxy } ?? true
        return isOfConnection ? nil : "The ':scheme' of a request over TLS is 'https'."
    }

    /// Judges a head of HTTP/1.0 or HTTP/1.1 below the parser of the versions' common form.
    /// - Returns: the status with which the request is refused; nil: the request may be carried out.
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
