// SPDX-License-Identifier: Apache-2.0
//
// A peer as simple as can be: blocking calls on one TCP socket. Rests on Glibc.

import Glibc

struct BlockingClient: ~Copyable {
    let descriptor: Int32

    /// - Parameter receiveBytes: SO_RCVBUF, to make a peer whose window is soon full.
    init(port: UInt16, receiveBytes: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Failure("socket: errno \(errno)") }
        if var receiveBytes {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBytes, 4)
        }
        // A broken transport must fail a test, not hang it.
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        let limitBytes = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, limitBytes)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, limitBytes)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw Failure("connect: errno \(errno)") }
    }

    deinit { close(descriptor) }

    /// Gives the socket to the caller, who closes it.
    consuming func take() -> Int32 {
        let descriptor = descriptor
        discard self
        return descriptor
    }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(
                    descriptor, $0.baseAddress! + sent, bytes.count - sent,
                    Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure("send after \(sent): errno \(errno)") }
            sent += count
        }
    }

    /// Up to `count` bytes: fewer only if the stream ends.
    func receive(_ count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var received = 0
        while received < count {
            let result = bytes.withUnsafeMutableBytes {
                recv(descriptor, $0.baseAddress! + received, count - received, 0)
            }
            guard result >= 0 else { throw Failure("receive after \(received): errno \(errno)") }
            if result == 0 { break }
            received += result
        }
        return Array(bytes[..<received])
    }

    /// Receives exactly these bytes.
    func expect(_ bytes: [UInt8]) throws {
        let received = try receive(bytes.count)
        if received != bytes { throw Failure("\(received.count) bytes, other than expected") }
    }

    /// The stream ends (or breaks) without a byte more.
    func expectEnd() throws {
        var byte: UInt8 = 0
        let result = recv(descriptor, &byte, 1, 0)
        guard result == 0 || result < 0 && errno == ECONNRESET else {
            throw Failure("the stream goes on: \(result), errno \(errno)")
        }
    }

    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Ends with a reset instead of an orderly close.
    consuming func reset() {
        var lingering = linger(l_onoff: 1, l_linger: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
    }
}

/// Bytes that repeat with a period of a prime, so that lost or swapped pieces show.
func pattern(_ count: Int, seed: Int = 0) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: ($0 + seed) % 65_521 &* 31 >> 3 &+ $0 % 251) }
}
