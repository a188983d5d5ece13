// SPDX-License-Identifier: Apache-2.0
//
// The header of the PROXY protocol, version 2: a proxy in front of the device port names its client before the
// client's first byte. Source: https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt §2.2. Rests on PeerAddress.
//
//   12 bytes signature | version 2, command | family, protocol | length (2, big-endian) | addresses, extensions

import MartletTransport

/// The beginning of a proxied connection.
enum ProxyHeader: Equatable {
    case unfinished
    /// - Parameter client: nil if the proxy speaks for itself, as in a health check.
    case whole(client: PeerAddress?, byteCount: Int)
    case wrong

    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    private static let headBytes = 16
    /// Longest header that is read, in bytes. Proxies add some extensions behind the addresses.
    static let bytesMax = 1024

    /// Reads the header at the beginning of the received bytes.
    init(_ bytes: [UInt8]) {
        let begun = min(bytes.count, Self.signature.count)
        guard bytes[..<begun] == Self.signature[..<begun] else {
            self = .wrong
            return
        }
        guard bytes.count >= Self.headBytes else {
            self = .unfinished
            return
        }
        let length = Int(bytes[14]) << 8 | Int(bytes[15])
        let byteCount = Self.headBytes + length
        let (version, command) = (bytes[12] >> 4, bytes[12] & 0xF)
        guard version == 2, command <= 1, byteCount <= Self.bytesMax else {
            self = .wrong
            return
        }
        guard bytes.count >= byteCount else {
            self = .unfinished
            return
        }
        guard command == 1 else {
            self = .whole(client: nil, byteCount: byteCount)
            return
        }
        let client: PeerAddress? = bytes[Self.headBytes..<byteCount].withUnsafeBytes { addresses in
            switch bytes[13] >> 4 {
            case 1 where addresses.count >= 12:
                PeerAddress(v4: UInt32(bigEndian: addresses.loadUnaligned(as: UInt32.self)))
            case 2 where addresses.count >= 36: PeerAddress(v6: addresses)
            default: nil
            }
        }
        self = .whole(client: client, byteCount: byteCount)
    }
}
