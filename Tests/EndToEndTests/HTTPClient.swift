// SPDX-License-Identifier: Apache-2.0
//
// The smallest HTTP client there can be: a blocking socket that sends one request and reads one answer.
// Rests on POSIX sockets.

import Foundation
import Glibc

final class HTTPClient {
    private let descriptor: Int32

    struct Failure: Error { let text: String }

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var patience = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else {
            let text = String(cString: strerror(errno))
            close(descriptor)
            throw Failure(text: "connect: \(text)")
        }
    }

    deinit { close(descriptor) }

    func send(_ method: String, _ target: String, key: String = "", _ body: String = "") {
        let credential = key.isEmpty ? "" : "Authorization: Bearer \(key)\r\n"
        send(
            raw: "\(method) \(target) HTTP/1.1\r\nHost: h\r\n\(credential)"
                + "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)")
    }

    func send(raw text: String) {
        _ = text.withCString { Glibc.send(descriptor, $0, strlen($0), Int32(MSG_NOSIGNAL)) }
    }

    /// The whole answer, which ends with the connection.
    func answer() throws -> String {
        var all: [UInt8] = []
        var bytes = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &bytes, bytes.count, 0)
            guard count >= 0 else { throw Failure(text: String(cString: strerror(errno))) }
            if count == 0 { return String(decoding: all, as: UTF8.self) }
            all += bytes.prefix(count)
        }
    }
}
