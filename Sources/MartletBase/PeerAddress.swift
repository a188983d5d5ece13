// SPDX-License-Identifier: Apache-2.0
//
// The network address of a peer, as a value of 16 bytes: limits by address are kept for many peers. An IPv4 address
// is kept as its mapped IPv6 address. Rests on the C library, for the text of an address.

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#else
    import Glibc
#endif

/// An IPv4 or IPv6 address of a peer.
public struct PeerAddress: Hashable, Sendable, CustomStringConvertible {
    /// The first eight bytes, as a number.
    public let high: UInt64
    /// The last eight bytes, as a number.
    public let low: UInt64

    private static let mapped: UInt64 = 0xFFFF << 32

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// - Parameter v4: the four bytes as a number: 127.0.0.1 is 0x7F000001.
    public init(v4: UInt32) { self.init(high: 0, low: Self.mapped | UInt64(v4)) }

    /// Reads a numeric address; nil for any other text.
    public init?(_ text: String) {
        var v4 = in_addr()
        var v6 = in6_addr()
        if unsafe inet_pton(AF_INET, text, &v4) == 1 {
            self.init(v4: UInt32(bigEndian: v4.s_addr))
        } else if unsafe inet_pton(AF_INET6, text, &v6) == 1 {
            let words = unsafe unsafeBitCast(v6, to: (high: UInt64, low: UInt64).self)
            self.init(high: UInt64(bigEndian: words.high), low: UInt64(bigEndian: words.low))
        } else {
            return nil
        }
    }

    /// 127.0.0.1.
    public static let loopback = PeerAddress(v4: 0x7F00_0001)

    /// Whether the address is an IPv4 address.
    public var isIPv4: Bool { high == 0 && low >> 32 == Self.mapped >> 32 }

    /// Whether the peer is on this machine.
    public var isLoopback: Bool {
        isIPv4 ? UInt32(truncatingIfNeeded: low) >> 24 == 127 : high == 0 && low == 1
    }

    /// The address by which limits count: an IPv4 address itself, and the first 64 bits of an IPv6 address, because
    /// one host mostly has all addresses of a /64.
    public var network: PeerAddress { isIPv4 ? self : PeerAddress(high: high, low: 0) }

    /// Whether the first bits of both addresses are equal.
    /// - Parameter bits: of 128; an IPv4 prefix is longer by 96.
    public func hasPrefix(_ prefix: PeerAddress, bits: Int) -> Bool {
        func isEqual(_ one: UInt64, _ other: UInt64, _ bits: Int) -> Bool {
            bits <= 0 || (one ^ other) >> UInt64(64 - min(bits, 64)) == 0
        }
        return isEqual(high, prefix.high, bits) && isEqual(low, prefix.low, bits - 64)
    }

    /// The address in numbers, as `192.0.2.7` or `2001:db8::1`.
    public var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        if isIPv4 {
            var address = in_addr(s_addr: UInt32(truncatingIfNeeded: low).bigEndian)
            unsafe inet_ntop(AF_INET, &address, &text, socklen_t(text.count))
        } else {
            var words = (high.bigEndian, low.bigEndian)
            unsafe inet_ntop(AF_INET6, &words, &text, socklen_t(text.count))
        }
        return String(
            decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// The beginning of a connection.
public struct ConnectionOrigin: Hashable, Sendable {
    /// Address of the peer.
    public let address: PeerAddress
    /// Number of the listening socket, in the order of `listen`.
    public let listener: Int

    public init(address: PeerAddress, listener: Int) {
        self.address = address
        self.listener = listener
    }
}
