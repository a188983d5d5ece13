// SPDX-License-Identifier: Apache-2.0
//
// The three ciphers as functions over bytes: records are sealed from pieces or in place, and opened in place. All connections of a loop share a cipher context
// per suite and direction, because a context of OpenSSL has a kilobyte. Setting a connection's key costs some 140 ns,
// and is left out while consecutive records belong to one connection. Rests on OpenSSL's EVP.

internal import COpenSSL

/// Cipher contexts of one loop. Not thread-safe.
package struct RecordCipher: ~Copyable {
    /// A record between `beginSealing` and `endSealing`. One record of a suite is sealed at a time.
    package struct Sealing {
        fileprivate let context: OpaquePointer
    }

    private struct Context {
        var pointer: OpaquePointer
        /// Number of the key that is set; 0: none.
        var keyNumber: UInt64 = 0
    }

    private let contexts: UnsafeMutablePointer<Context>
    private static let count = 2 * TLSCipherSuite.allCases.count

    package init() {
        contexts = .allocate(capacity: Self.count)
        for suite in TLSCipherSuite.allCases {
            let cipher = EVP_CIPHER_fetch(nil, suite.cipherName, nil)
            for direction in 0..<2 {
                guard let context = EVP_CIPHER_CTX_new(), let cipher,
                    EVP_CipherInit_ex(context, cipher, nil, nil, nil, Int32(direction)) == 1
                else { fatalError("OpenSSL has the cipher \(suite.cipherName) of TLS 1.3.") }
                (contexts + 2 * suite.number + direction).initialize(to: Context(pointer: context))
            }
            EVP_CIPHER_free(cipher)
        }
    }

    deinit {
        for index in 0..<Self.count { EVP_CIPHER_CTX_free(contexts[index].pointer) }
        contexts.deallocate()
    }

    /// Begins to seal a record: sets key and nonce, and takes the header. `seal` and `endSealing` follow.
    @inline(__always)
    package func beginSealing(
        _ suite: TLSCipherSuite, _ keys: inout TrafficKeys, header: UnsafeRawBufferPointer
    ) -> Sealing {
        let sealing = Sealing(context: begin(suite, &keys, direction: 1))
        var done: Int32 = 0
        let isTaken =
            header.isEmpty
            || EVP_EncryptUpdate(
                sealing.context, nil, &done,
                header.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(header.count)) == 1
        precondition(isTaken, "OpenSSL takes a record's header.")
        keys.sequence += 1
        return sealing
    }

    /// Seals the next `count` bytes of the record. Source and target are the same bytes, or do not overlap.
    @inline(__always)
    package func seal(
        _ sealing: Sealing, from source: UnsafeRawPointer, into target: UnsafeMutableRawPointer,
        count: Int
    ) {
        var done: Int32 = 0
        let isSealed = EVP_EncryptUpdate(
            sealing.context, target.assumingMemoryBound(to: UInt8.self), &done,
            source.assumingMemoryBound(to: UInt8.self), Int32(count))
        precondition(isSealed == 1 && Int(done) == count, "OpenSSL seals bytes.")
    }

    /// Ends the record: writes its tag.
    @inline(__always)
    package func endSealing(_ sealing: Sealing, tag: UnsafeMutableRawPointer) {
        var done: Int32 = 0
        let isSealed =
            EVP_EncryptFinal_ex(
                sealing.context, tag.assumingMemoryBound(to: UInt8.self), &done) == 1
            && EVP_CIPHER_CTX_ctrl(
                sealing.context, EVP_CTRL_AEAD_GET_TAG, Int32(TLSLimits.tagBytes), tag) == 1
        precondition(isSealed, "OpenSSL seals a record.")
    }

    /// Opens `count` bytes in place, which the tag follows.
    /// - Returns: false if the bytes or the header are not those that were sealed. The bytes then have no meaning.
    @inline(__always)
    package func open(
        _ suite: TLSCipherSuite, _ keys: inout TrafficKeys, header: UnsafeRawBufferPointer,
        _ bytes: UnsafeMutablePointer<UInt8>, count: Int
    ) -> Bool {
        let context = begin(suite, &keys, direction: 0)
        var done: Int32 = 0
        let isGenuine =
            EVP_CIPHER_CTX_ctrl(
                context, EVP_CTRL_AEAD_SET_TAG, Int32(TLSLimits.tagBytes), bytes + count) == 1
            && (header.isEmpty
                || EVP_DecryptUpdate(
                    context, nil, &done,
                    header.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(header.count))
                    == 1)
            && (count == 0 || EVP_DecryptUpdate(context, bytes, &done, bytes, Int32(count)) == 1)
            && EVP_DecryptFinal_ex(context, bytes + count, &done) == 1
        keys.sequence += 1
        return isGenuine
    }

    /// Sets the nonce of the next record, and the key unless the key is set.
    @inline(__always)
    private func begin(
        _ suite: TLSCipherSuite, _ keys: inout TrafficKeys, direction: Int
    ) -> OpaquePointer {
        let entry = contexts + 2 * suite.number + direction
        let context = entry.pointee.pointer
        let isKeySet = entry.pointee.keyNumber == keys.number
        keys.withNonce { key, nonce in
            let isSet = EVP_CipherInit_ex(
                context, nil, nil, isKeySet ? nil : key, nonce, Int32(direction))
            precondition(isSet == 1, "OpenSSL takes a key.")
        }
        entry.pointee.keyNumber = keys.number
        return context
    }

    /// Overwrites a key that a context still has.
    func forget(_ keys: borrowing TrafficKeys) {
        for index in 0..<Self.count where contexts[index].keyNumber == keys.number {
            contexts[index].keyNumber = 0
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32) { zeros in
                zeros.initialize(repeating: 0)
                _ = EVP_CipherInit_ex(
                    contexts[index].pointer, nil, nil, zeros.baseAddress, nil, -1)
            }
        }
    }
}
