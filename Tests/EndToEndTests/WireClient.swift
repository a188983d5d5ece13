// SPDX-License-Identifier: Apache-2.0
//
// The smallest client there can be: a blocking socket and the codec. It keeps no state and retries
// nothing, so what it saw is what the broker said. Rests on MartletWire.

import Glibc
import MartletBase
import MartletWire

final class WireClient {
    private let descriptor: Int32
    private var buffer: [UInt8] = []

    struct Failure: Error { let text: String }

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw Failure(text: "connect: \(String(cString: strerror(errno)))") }
        // A broker that says nothing for so long is a failure of the test, not a way for it to pass.
        var patience = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// False if the broker is gone.
    @discardableResult
    func send(_ frame: some WireFrame) -> Bool {
        var writer = WireWriter()
        frame.encode(into: &writer)
        var sent = 0
        while sent < writer.bytes.count {
            let count = writer.bytes.withUnsafeBytes {
                Glibc.send(
                    descriptor, $0.baseAddress! + sent, $0.count - sent,
                    Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// nil if the broker is gone.
    func receive() throws -> BrokerFrame? {
        while true {
            if buffer.count >= 4 {
                let length = buffer.withUnsafeBytes {
                    Int(UInt32(littleEndian: $0.loadUnaligned(as: UInt32.self)))
                }
                if buffer.count >= 4 + length {
                    let frame = try buffer.withUnsafeBytes {
                        try BrokerFrame.decode(
                            type: $0[4],
                            body: UnsafeRawBufferPointer(rebasing: $0[5..<(4 + length)]))
                    }
                    buffer.removeFirst(4 + length)
                    return frame
                }
            }
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count < 0, errno == EAGAIN { throw Failure(text: "the broker is silent") }
            guard count > 0 else { return nil }
            buffer += chunk[..<count]
        }
    }

    /// Says hello and waits to be welcome; false if the broker is gone.
    func hello(_ hello: Hello) throws -> Bool {
        guard send(hello) else { return false }
        switch try receive() {
        case .welcome: return true
        case nil: return false
        case .some(let other): throw Failure(text: "instead of WELCOME: \(other)")
        }
    }
}
