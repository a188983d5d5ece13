// SPDX-License-Identifier: Apache-2.0
//
// A peer that speaks HTTP byte by byte over a blocking socket. Pure.

import Foundation
import Glibc
import Martlet

/// One connection. Waiting for what never comes fails after a generous while instead of hanging.
final class HTTPPeer {
    struct Answer {
        var status: Int
        var headers: [String: String]
        var body: String
        var json: JSONValue { (try? JSONValue(parsing: body)) ?? .string(body) }
    }

    enum Failure: Error {
        case connect(Int32)
        case closed
    }

    private let descriptor: Int32
    private var arrived: [UInt8] = []

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            close(descriptor)
            throw Failure.connect(errno)
        }
    }

    deinit { close(descriptor) }

    /// - Returns: false if the connection has ended.
    @discardableResult
    func write(_ text: String) -> Bool { write(Array(text.utf8)) }

    /// - Returns: false if the connection has ended.
    @discardableResult
    func write(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// A whole request.
    func request(
        _ method: String, _ target: String, headers: [(String, String)] = [], _ body: String = ""
    ) {
        request(method, target, headers: headers, bytes: Array(body.utf8))
    }

    /// A whole request with any bytes as its body.
    func request(
        _ method: String, _ target: String, headers: [(String, String)], bytes: [UInt8]
    ) {
        let lines = headers.map { "\($0.0): \($0.1)\r\n" }.joined()
        write(
            "\(method) \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\n\(lines)"
                + "Content-Length: \(bytes.count)\r\n\r\n")
        write(bytes)
    }

    /// The next answer.
    /// - Parameter isHeadOnly: HEAD was asked.
    func answer(isHeadOnly: Bool = false) throws -> Answer {
        while true {
            if let end = headEnd {
                let head = String(decoding: arrived[..<end], as: UTF8.self)
                let lines = head.components(separatedBy: "\r\n")
                var headers: [String: String] = [:]
                for line in lines.dropFirst() {
                    let sides = line.split(separator: ":", maxSplits: 1)
                    guard sides.count == 2 else { continue }
                    headers[sides[0].lowercased()] = sides[1].trimmingCharacters(in: .whitespaces)
                }
                let count = isHeadOnly ? 0 : Int(headers["content-length"] ?? "0") ?? 0
                let bodyEnd = end + 4 + count
                if arrived.count >= bodyEnd {
                    let body = String(decoding: arrived[(end + 4)..<bodyEnd], as: UTF8.self)
                    arrived.removeFirst(bodyEnd)
                    let status = Int(lines[0].split(separator: " ")[1]) ?? 0
                    return Answer(status: status, headers: headers, body: body)
                }
            }
            guard try read() else { throw Failure.closed }
        }
    }

    /// The connection ends, whatever comes before.
    func end() throws {
        while try read() {}
    }

    private var headEnd: Int? {
        arrived.indices.first {
            $0 + 4 <= arrived.count && Array(arrived[$0..<($0 + 4)]) == Array("\r\n\r\n".utf8)
        }
    }

    /// - Returns: false at the end.
    private func read() throws -> Bool {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        guard count >= 0 || errno == ECONNRESET else { throw Failure.connect(errno) }
        arrived += bytes.prefix(max(0, count))
        return count > 0
    }
}
