// SPDX-License-Identifier: Apache-2.0
//
// Whether an address is one of the public Internet. A foreign push service has such an address; a private address would
// let a URL reach into the operator's network. Rests on the C library.
// Source: the IANA registries of special-purpose addresses (RFC 6890).

import Glibc

/// An IP address.
package struct InternetAddress: Sendable, Hashable {
    /// 4 or 16 bytes.
    let bytes: [UInt8]

    /// - Parameter text: numbers, not a name.
    package init?(_ text: String) {
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            bytes = withUnsafeBytes(of: four) { Array($0) }
            return
        }
        var sixteen = in6_addr()
        guard inet_pton(AF_INET6, text, &sixteen) == 1 else { return nil }
        bytes = withUnsafeBytes(of: sixteen) { Array($0) }
    }

    /// Whether hosts of the Internet have such addresses.
    package var isPublic: Bool {
        if bytes.count == 4 { return Self.isPublic(bytes[...]) }
        let (first, second) = (bytes[0], bytes[1])
        // IPv4 in IPv6: mapped, and NAT64 of RFC 6052.
        if bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF {
            return Self.isPublic(bytes[12...])
        }
        if Array(bytes[..<12]) == [0, 0x64, 0xFF, 0x9B] + [UInt8](repeating: 0, count: 8) {
            return Self.isPublic(bytes[12...])
        }
        // Global unicast is 2000::/3; of it, documentation, benchmarks and 6to4 are not.
        guard first & 0xE0 == 0x20 else { return false }
        if first == 0x20, second == 0x01 {
            return !(bytes[2] == 0x0D && bytes[3] == 0xB8) && bytes[2] != 0
        }
        return !(first == 0x20 && second == 0x02)
    }

    private static func isPublic(_ bytes: ArraySlice<UInt8>) -> Bool {
        let four = Array(bytes)
        return switch (four[0], four[1], four[2]) {
        case (0, _, _), (10, _, _), (127, _, _), (224..., _, _): false
        case (100, 64...127, _), (169, 254, _), (172, 16...31, _), (192, 168, _): false
        case (192, 0, 0), (192, 0, 2), (192, 88, 99), (198, 18...19, _): false
        case (198, 51, 100), (203, 0, 113): false
        default: true
        }
    }

    /// The addresses of a host. Blocks: called on a thread of its own.
    static func addresses(of host: String) -> [String] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &found) == 0 else { return [] }
        defer { freeaddrinfo(found) }
        var texts: [String] = []
        var next = found
        while let entry = next {
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            if getnameinfo(
                entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil,
                0, NI_NUMERICHOST) == 0
            {
                texts.append(
                    String(
                        decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) },
                        as: UTF8.self))
            }
            next = entry.pointee.ai_next
        }
        return texts
    }
}
