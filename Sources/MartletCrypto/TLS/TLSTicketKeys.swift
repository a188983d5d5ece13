// SPDX-License-Identifier: Apache-2.0
//
// The keys that seal resumption tickets. A ticket holds the state of a client's session, so the broker keeps none. All
// loops share the keys, and reloaded certificates keep them. A key seals for `ticketKeySeconds` and opens for as long
// again. Rests on OpenSSL.
//
// Source: SSL_CTX_set_tlsext_ticket_key_evp_cb(3); RFC 5077 §4 for the form of a ticket.

internal import COpenSSL
internal import Glibc
internal import Synchronization

/// The ticket keys of a broker.
public final class TLSTicketKeys: Sendable {
    /// A key: name, cipher key and authentication key.
    private struct Key {
        var name = SIMD16<UInt8>()
        var cipherKey = SIMD32<UInt8>()
        var macKey = SIMD32<UInt8>()
        let made: Int64

        init(now: Int64) {
            made = now
            let isRandom =
                withUnsafeMutableBytes(of: &name) { Self.fill($0) }
                && withUnsafeMutableBytes(of: &cipherKey) { Self.fill($0) }
                && withUnsafeMutableBytes(of: &macKey) { Self.fill($0) }
            precondition(isRandom, "OpenSSL gives random bytes.")
        }

        private static func fill(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
            RAND_priv_bytes(bytes.baseAddress, Int32(bytes.count)) == 1
        }
    }

    private struct State {
        var current: Key
        var before: Key?

        mutating func rotate(now: Int64) {
            if let old = before, now - old.made >= 2 * TLSLimits.ticketKeySeconds { before = nil }
            guard now - current.made >= TLSLimits.ticketKeySeconds else { return }
            let isBeforeUseful = now - current.made < 2 * TLSLimits.ticketKeySeconds
            before = isBeforeUseful ? current : nil
            current = Key(now: now)
        }
    }

    private let state: Mutex<State>
    private let now: @Sendable () -> Int64

    /// - Parameter now: a monotonic clock, in seconds.
    public init(now: @escaping @Sendable () -> Int64 = TLSTicketKeys.monotonicSeconds) {
        self.now = now
        state = Mutex(State(current: Key(now: now())))
    }

    /// Seconds of the system's monotonic clock.
    public static func monotonicSeconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec)
    }

    /// Results of the callback (Source: SSL_CTX_set_tlsext_ticket_key_evp_cb(3)).
    private enum Answer {
        static let failed: Int32 = -1
        /// The ticket is not opened: the handshake is a full one.
        static let unknown: Int32 = 0
        static let done: Int32 = 1
    }

    /// Prepares cipher and MAC for a ticket to be sealed or opened.
    fileprivate func prepare(
        name: UnsafeMutablePointer<UInt8>, vector: UnsafeMutablePointer<UInt8>,
        cipher: OpaquePointer, mac: OpaquePointer, isSealing: Bool
    ) -> Int32 {
        let time = now()
        var key: Key? = state.withLock { state in
            state.rotate(now: time)
            guard !isSealing else { return state.current }
            let wanted = UnsafeRawPointer(name).loadUnaligned(as: SIMD16<UInt8>.self)
            if state.current.name == wanted { return state.current }
            return state.before?.name == wanted ? state.before : nil
        }
        guard key != nil else { return Answer.unknown }
        defer { withUnsafeMutableBytes(of: &key) { OPENSSL_cleanse($0.baseAddress, $0.count) } }
        if isSealing {
            UnsafeMutableRawPointer(name).storeBytes(of: key!.name, as: SIMD16<UInt8>.self)
            guard RAND_bytes(vector, 16) == 1 else { return Answer.failed }
        }
        let isCipherSet = withUnsafeBytes(of: &key!.cipherKey) { bytes in
            EVP_CipherInit_ex(
                cipher, EVP_aes_256_cbc(), nil,
                bytes.baseAddress!.assumingMemoryBound(to: UInt8.self), vector, isSealing ? 1 : 0)
        }
        let isMACSet = withUnsafeMutableBytes(of: &key!.macKey) { bytes in
            martlet_mac_set_sha256_key(mac, bytes.baseAddress, bytes.count)
        }
        return isCipherSet == 1 && isMACSet == 1 ? Answer.done : Answer.failed
    }

    /// The callback of OpenSSL. The context's application data is the `TLSServerContext`.
    static let callback:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<UInt8>?,
            OpaquePointer?, OpaquePointer?, Int32
        ) -> Int32 = { ssl, name, vector, cipher, mac, isSealing in
            guard let ssl, let name, let vector, let cipher, let mac,
                let data = martlet_ssl_ctx_get_app_data(SSL_get_SSL_CTX(ssl))
            else { return Answer.failed }
            let keys = Unmanaged<TLSTicketKeys>.fromOpaque(data).takeUnretainedValue()
            return keys.prepare(
                name: name, vector: vector, cipher: cipher, mac: mac, isSealing: isSealing == 1)
        }
}
