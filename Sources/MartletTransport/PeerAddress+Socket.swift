// SPDX-License-Identifier: Apache-2.0
//
// Addresses of peers as sockets and headers have them. Rests on PeerAddress.

package import Glibc
public import MartletBase

extension PeerAddress {
    /// The address of a socket's peer; an address that is neither IPv4 nor IPv6 counts as `::`.
    package init(_ storage: sockaddr_storage) {
        self = withUnsafeBytes(of: storage) { raw in
            switch Int32(storage.ss_family) {
            case AF_INET: Self(v4: UInt32(bigEndian: raw.load(fromByteOffset: 4, as: UInt32.self)))
            case AF_INET6: Self(v6: UnsafeRawBufferPointer(rebasing: raw[8..<24]))
            default: Self(high: 0, low: 0)
            }
        }
    }

    /// The 16 bytes of an IPv6 address in the order of the network.
    public init(v6 bytes: UnsafeRawBufferPointer) {
        self.init(
            high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }
}
