// SPDX-License-Identifier: Apache-2.0
//
// The header of the PROXY protocol: a proxy in front of the device port names its client before the client's first
// byte. Both versions are taken, because nginx writes version 1 alone. Each deviation is refused, as the
// specification demands. Source: https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt §2.1, §2.2. Rests on
// PeerAddress.
//
//   version 1: PROXY TCP4|TCP6 source destination source-port destination-port CR LF, or PROXY UNKNOWN … CR LF
//   version 2: 12 bytes signature | version 2, command | family, protocol | length (2, big-endian) | addresses, extensions

package import MartletBase
import MartletTransport

/// The beginning of a proxied connection.
package enum ProxyHeader: Equatable {
    case unfinished
    case whole(Client, byteCount: Int)
    case wrong

    /// The peer for which the proxy speaks.
    package enum Client: Equatable {
        case address(PeerAddress)
        /// A client whose address the proxy does not tell.
        case unknown
        /// The proxy itself, as in a health check.
        case proxy
    }

    /// Longest header that is read, in bytes. Proxies add some extensions behind the addresses of version 2.
    static let bytesMax = 1024

    /// Reads the header at the beginning of the received bytes.
    package init(_ bytes: [UInt8]) {
        self = bytes.first == Self.word.first ? Self.text(bytes) : Self.binary(bytes)
    }

    /// Whether the bytes begin as the signature does, as far as there are bytes.
    private static func isBegun(_ bytes: [UInt8], _ signature: [UInt8]) -> Bool {
        let count = min(bytes.count, signature.count)
        return bytes[..<count] == signature[..<count]
    }

    // MARK: Version 1

    private static let word = Array("PROXY ".utf8)
    /// The longest line, with CR and LF.
    private static let lineBytesMax = 107

    private static func text(_ bytes: [UInt8]) -> ProxyHeader {
        guard isBegun(bytes, word) else { return .wrong }
        let start = bytes.prefix(lineBytesMax)
        let ends = start.indices.dropFirst().first { start[$0 - 1] == 0x0D && start[$0] == 0x0A }
        guard let end = ends else { return bytes.count < lineBytesMax ? .unfinished : .wrong }
        let fields = bytes[word.count..<(end - 1)].split(
            separator: 0x20, omittingEmptySubsequences: false)
        // What follows UNKNOWN says nothing, whatever it is.
        if let kind = fields.first, kind.elementsEqual("UNKNOWN".utf8) {
            return .whole(.unknown, byteCount: end + 1)
        }
        guard fields.count == 5, let client = address(fields[1], of: fields[0]),
            address(fields[2], of: fields[0]) != nil, isPort(fields[3]), isPort(fields[4])
        else { return .wrong }
        return .whole(.address(client), byteCount: end + 1)
    }

    /// An address without a zone or leading zeros, which `inet_pton` refuses, and without NUL, which would end its text.
    private static func address(
        _ field: ArraySlice<UInt8>, of kind: ArraySlice<UInt8>
    ) -> PeerAddress? {
        let isV6 = field.contains(UInt8(ascii: ":"))
        guard kind.elementsEqual((isV6 ? "TCP6" : "TCP4").utf8), !field.contains(0) else {
            return nil
        }
        return PeerAddress(String(decoding: field, as: UTF8.self))
    }

    private static func isPort(_ field: ArraySlice<UInt8>) -> Bool {
        guard (1...5).contains(field.count), field.first != UInt8(ascii: "0") || field.count == 1
        else { return false }
        var port = 0
        for digit in field {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return false }
            port = 10 * port + Int(digit - UInt8(ascii: "0"))
        }
        return port <= UInt16.max
    }

    // MARK: Version 2

    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    private static let headBytes = 16

    private static func binary(_ bytes: [UInt8]) -> ProxyHeader {
        guard isBegun(bytes, signature) else { return .wrong }
        guard bytes.count >= headBytes else { return .unfinished }
        let length = Int(bytes[14]) << 8 | Int(bytes[15])
        let byteCount = headBytes + length
        let (version, command) = (bytes[12] >> 4, bytes[12] & 0xF)
        guard version == 2, command <= 1, byteCount <= bytesMax else { return .wrong }
        guard bytes.count >= byteCount else { return .unfinished }
        guard command == 1 else { return .whole(.proxy, byteCount: byteCount) }
        let client: Client = bytes[headBytes..<byteCount].withUnsafeBytes { addresses in
            switch bytes[13] >> 4 {
            case 1 where addresses.count >= 12:
                .address(
                    PeerAddress(v4: UInt32(bigEndian: addresses.loadUnaligned(as: UInt32.self))))
            case 2 where addresses.count >= 36: .address(PeerAddress(v6: addresses))
            default: .unknown
            }
        }
        return .whole(client, byteCount: byteCount)
    }
}
