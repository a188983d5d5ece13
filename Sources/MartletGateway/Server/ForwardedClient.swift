// SPDX-License-Identifier: Apache-2.0
//
// The client behind a proxy, by the one header that the proxy sets. Any other header may come from the client itself, so
// only the operator can say which one counts. Each proxy appends the address of its peer, so the list is read from its
// end, as far as the proxies are known; an address in front of an unknown peer may be invented.
//
// The header is split as bytes. A character of Swift may have several code points, and one of them may be a comma: a
// client could hide the end of its own part in such a character. Rests on PeerAddress. Source: RFC 7239, RFC 9110 §5.6.

import Martlet

package enum ForwardedClient {
    /// The header with a form of its own (RFC 7239). Every other header is a list of addresses.
    private static let structured = "forwarded"

    /// The address of the client of a request with these headers.
    /// - Parameters:
    ///   - peer: address of the connection's other end.
    ///   - name: of the header that proxies set, in lower case.
    ///   - isProxy: whether the word of an address counts.
    package static func address(
        in headers: [(name: String, value: String)], from peer: String?, by name: String,
        isProxy: (PeerAddress) -> Bool
    ) -> String? {
        guard let peer, var client = PeerAddress(peer), isProxy(client) else { return peer }
        // Several headers of the name are one list, in their order.
        for header in headers.reversed() where header.name == name {
            for element in reversedParts(of: Array(header.value.utf8)[...], at: UInt8(ascii: ",")) {
                let text = name == structured ? forwarded(element) : element
                guard let next = address(text) else { return client.description }
                client = next
                guard isProxy(next) else { return client.description }
            }
        }
        return client.description
    }

    /// The parts between separators, from the end. Separators in quotes do not count. Read from the end, the quotes of
    /// the last proxy are told right whatever a client has opened in front of them.
    private static func reversedParts(
        of bytes: ArraySlice<UInt8>, at separator: UInt8
    ) -> [ArraySlice<UInt8>] {
        var parts: [ArraySlice<UInt8>] = []
        var (end, isQuoted) = (bytes.endIndex, false)
        for index in bytes.indices.reversed() {
            switch bytes[index] {
            case UInt8(ascii: "\""):
                let slashes = bytes[..<index].reversed().prefix { $0 == UInt8(ascii: "\\") }.count
                if !isQuoted || slashes.isMultiple(of: 2) { isQuoted.toggle() }
            case separator where !isQuoted:
                parts.append(trimmed(bytes[(index + 1)..<end]))
                end = index
            default: break
            }
        }
        parts.append(trimmed(bytes[..<end]))
        return parts
    }

    /// The value of `for` in an element of `Forwarded`; empty without one.
    private static func forwarded(_ element: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        for pair in reversedParts(of: element, at: UInt8(ascii: ";")) {
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let name = String(decoding: trimmed(pair[..<equals]), as: UTF8.self)
            if name.lowercased() == "for" { return trimmed(pair[(equals + 1)...]) }
        }
        return []
    }

    /// The address of `192.0.2.7:4711`, `"[2001:db8::1]:4711"` or an address alone.
    private static func address(_ text: ArraySlice<UInt8>) -> PeerAddress? {
        var bare = text.filter { $0 != UInt8(ascii: "\"") }[...]
        if bare.first == UInt8(ascii: "[") {
            bare = bare.dropFirst().prefix { $0 != UInt8(ascii: "]") }
        } else {
            let parts = bare.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
            if parts.count == 2 { bare = parts[0] }
        }
        return PeerAddress(String(decoding: bare, as: UTF8.self))
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isBlank = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let start = bytes.drop(while: isBlank)
        return start.lastIndex { !isBlank($0) }.map { start[...$0] } ?? []
    }
}

extension Gateway {
    /// The address of a request's client, as proxies tell it.
    /// - Parameter peer: address of the connection's other end.
    func client(of headers: [(name: String, value: String)], from peer: String?) -> String? {
        ForwardedClient.address(
            in: headers, from: peer, by: configuration.proxyHeader.lowercased(),
            isProxy: broker.isProxy)
    }
}
