// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a host's name, by the system's resolver. The resolver blocks, and therefore runs on a thread for
// blocking calls. Rests on Glibc and NIO's thread pool.

import Glibc
import MartletTransport
import NIOPosix

enum HostAddresses {
    /// A name that the resolver does not know, or cannot ask for now.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The addresses of a host, the best first.
    /// - Parameter host: a name, or a numeric address in any form that the system reads.
    static func find(_ host: String) async throws -> [PeerAddress] {
        if let address = PeerAddress(host) { return [address] }
        return try await NIOThreadPool.singleton.runIfActive { try resolve(host) }
    }

    private static func resolve(_ host: String) throws(Failure) -> [PeerAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            throw Failure(
                description: "The host has no address: \(String(cString: gai_strerror(code))).")
        }
        defer { freeaddrinfo(list) }
        var found: [PeerAddress] = []
        var next = list
        while let entry = next {
            next = entry.pointee.ai_next
            guard let address = entry.pointee.ai_addr else { continue }
            var storage = sockaddr_storage()
            withUnsafeMutableBytes(of: &storage) { bytes in
                let count = min(bytes.count, Int(entry.pointee.ai_addrlen))
                bytes.copyMemory(from: UnsafeRawBufferPointer(start: address, count: count))
            }
            let known = PeerAddress(storage)
            if !found.contains(known) { found.append(known) }
        }
        return found
    }
}
