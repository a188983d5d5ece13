// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a host's name, by the system's resolver. Rests on Glibc.

import Glibc
package import MartletBase

package enum HostAddresses {
    /// A name that the resolver does not know, or cannot ask for now.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// The addresses of a host, the best first. Blocks for as long as the resolver waits for an answer.
    /// - Parameter host: a name, or a numeric address in any form that the system reads.
    package static func find(_ host: String) throws(Failure) -> [PeerAddress] {
        if let address = PeerAddress(host) { return [address] }
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
