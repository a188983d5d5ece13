// SPDX-License-Identifier: Apache-2.0
//
// The three ciphers against published test vectors, through the calls that seal and open records (OPS-6). The vectors: RFC
// 8439 §2.8.2 and A.5 for ChaCha20-Poly1305; test cases 1 to 4 and 13 to 16 of McGrew and Viega, "The Galois/Counter Mode of
// Operation", for AES-128-GCM and AES-256-GCM, which NIST SP 800-38D refers to. RFC 8448's records are in RecordTests. Rests
// on RecordCipher.

import MartletCrypto
import Testing

/// A published vector, all bytes in hexadecimal digits.
struct CipherVector: Sendable, CustomTestStringConvertible {
    var name: String
    var suite: TLSCipherSuite
    var key: String
    var vector: String
    var header = ""
    var plain = ""
    var sealed = ""
    var tag: String

    var testDescription: String { name }
}

@Suite("TLS: published vectors of the ciphers")
struct VectorTests {
    private static let shortKey = "feffe9928665731c6d6a8f9467308308"
    private static let header = "feedfacedeadbeeffeedfacedeadbeefabaddad2"
    /// The plain text of test cases 3 and 15; cases 4 and 16 leave the last four bytes out.
    private static let plain = """
        d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39
        """
    private static let sealed128 = """
        42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
        21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091
        """
    private static let sealed256 = """
        522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
        8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662
        """

    static let vectors = [
        CipherVector(
            name: "GCM case 1", suite: .aes128GCM, key: String(repeating: "0", count: 32),
            vector: String(repeating: "0", count: 24), tag: "58e2fccefa7e3061367f1d57a4e7455a"),
        CipherVector(
            name: "GCM case 2", suite: .aes128GCM, key: String(repeating: "0", count: 32),
            vector: String(repeating: "0", count: 24), plain: String(repeating: "0", count: 32),
            sealed: "0388dace60b6a392f328c2b971b2fe78", tag: "ab6e47d42cec13bdf53a67b21257bddf"),
        CipherVector(
            name: "GCM case 3", suite: .aes128GCM, key: shortKey,
            vector: "cafebabefacedbaddecaf888", plain: plain + "1aafd255",
            sealed: sealed128 + "473f5985", tag: "4d5c2af327cd64a62cf35abd2ba6fab4"),
        CipherVector(
            name: "GCM case 4", suite: .aes128GCM, key: shortKey,
            vector: "cafebabefacedbaddecaf888", header: header, plain: plain, sealed: sealed128,
            tag: "5bc94fbc3221a5db94fae95ae7121a47"),
        CipherVector(
            name: "GCM case 13", suite: .aes256GCM, key: String(repeating: "0", count: 64),
            vector: String(repeating: "0", count: 24), tag: "530f8afbc74536b9a963b4f1c4cb738b"),
        CipherVector(
            name: "GCM case 14", suite: .aes256GCM, key: String(repeating: "0", count: 64),
            vector: String(repeating: "0", count: 24), plain: String(repeating: "0", count: 32),
            sealed: "cea7403d4d606b6e074ec5d3baf39d18", tag: "d0d1c8a799996bf0265b98b5d48ab919"),
        CipherVector(
            name: "GCM case 15", suite: .aes256GCM, key: shortKey + shortKey,
            vector: "cafebabefacedbaddecaf888", plain: plain + "1aafd255",
            sealed: sealed256 + "898015ad", tag: "b094dac5d93471bdec1a502270e3cc6c"),
        CipherVector(
            name: "GCM case 16", suite: .aes256GCM, key: shortKey + shortKey,
            vector: "cafebabefacedbaddecaf888", header: header, plain: plain, sealed: sealed256,
            tag: "76fc6ece0f4e1768cddf8853bb2d551b"),
        CipherVector(
            name: "RFC 8439 §2.8.2", suite: .chaCha20Poly1305,
            key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            vector: "070000004041424344454647", header: "50515253c0c1c2c3c4c5c6c7",
            plain: """
                4c616469657320616e642047656e746c656d656e206f662074686520636c6173
                73206f66202739393a204966204920636f756c64206f6666657220796f75206f
                6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73
                637265656e20776f756c642062652069742e
                """,
            sealed: """
                d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
                3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
                92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
                3ff4def08e4b7a9de576d26586cec64b6116
                """, tag: "1ae10b594f09e26a7e902ecbd0600691"),
        CipherVector(
            name: "RFC 8439 A.5", suite: .chaCha20Poly1305,
            key: "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0",
            vector: "000000000102030405060708", header: "f33388860000000000004e91",
            plain: """
                496e7465726e65742d4472616674732061726520647261667420646f63756d65
                6e74732076616c696420666f722061206d6178696d756d206f6620736978206d
                6f6e74687320616e64206d617920626520757064617465642c207265706c6163
                65642c206f72206f62736f6c65746564206279206f7468657220646f63756d65
                6e747320617420616e792074696d652e20497420697320696e617070726f7072
                6961746520746f2075736520496e7465726e65742d4472616674732061732072
                65666572656e6365206d6174657269616c206f7220746f206369746520746865
                6d206f74686572207468616e206173202fe2809c776f726b20696e2070726f67
                726573732e2fe2809d
                """,
            sealed: """
                64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb2
                4c6cfc18755d43eea09ee94e382d26b0bdb7b73c321b0100d4f03b7f355894cf
                332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c855
                9797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4
                b9166c767b804d46a59b5216cde7a4e99040c5a40433225ee282a1b0a06c523e
                af4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a
                0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a10
                49e617d91d361094fa68f0ff77987130305beaba2eda04df997b714d6c6f2c29
                a6ad5cb4022b02709b
                """, tag: "eead9d67890cbb22392336fea1851f38"),
    ]

    private func keys(_ vector: CipherVector, number: UInt64) -> TrafficKeys {
        TrafficKeys(
            vector.suite, key: bytes(vector.key).span, vector: bytes(vector.vector).span,
            number: number)
    }

    /// Seals the plain bytes, cut in pieces at some places.
    private func seal(
        _ vector: CipherVector, _ cipher: borrowing RecordCipher, number: UInt64, cuts: [Int]
    ) -> [UInt8] {
        var keys = keys(vector, number: number)
        let plain = bytes(vector.plain)
        var output = [UInt8](repeating: 0, count: plain.count + TLSLimits.tagBytes)
        bytes(vector.header).withUnsafeBytes { header in
            plain.withUnsafeBytes { plain in
                output.withUnsafeMutableBytes { output in
                    let sealing = cipher.beginSealing(vector.suite, &keys, header: header)
                    var at = 0
                    for end in cuts + [plain.count] where end > at {
                        cipher.seal(
                            sealing, from: plain.baseAddress! + at, into: output.baseAddress! + at,
                            count: end - at)
                        at = end
                    }
                    cipher.endSealing(sealing, tag: output.baseAddress! + plain.count)
                }
            }
        }
        return output
    }

    /// Opens sealed bytes with their tag; nil: the bytes are not genuine.
    private func open(
        _ vector: CipherVector, _ sealed: [UInt8], header: [UInt8],
        _ cipher: borrowing RecordCipher, number: UInt64
    ) -> [UInt8]? {
        var keys = keys(vector, number: number)
        var sealed = sealed
        let count = sealed.count - TLSLimits.tagBytes
        let isGenuine = header.withUnsafeBytes { header in
            sealed.withUnsafeMutableBufferPointer { sealed in
                cipher.open(
                    vector.suite, &keys, header: header, sealed.baseAddress!, count: count)
            }
        }
        return isGenuine ? Array(sealed[..<count]) : nil
    }

    @Test(
        "OPS-6 published vectors are sealed byte for byte, whole and in pieces", arguments: vectors)
    func sealing(vector: CipherVector) {
        let cipher = RecordCipher()
        let expected = bytes(vector.sealed) + bytes(vector.tag)
        #expect(seal(vector, cipher, number: 1, cuts: []) == expected)
        // With the key already set, and with another.
        #expect(seal(vector, cipher, number: 1, cuts: []) == expected)
        for cut in 1..<max(bytes(vector.plain).count, 1) {
            #expect(seal(vector, cipher, number: UInt64(1 + cut), cuts: [cut]) == expected)
        }
    }

    @Test(
        "OPS-6 published vectors are opened, and no changed byte of theirs is", arguments: vectors)
    func opening(vector: CipherVector) {
        let cipher = RecordCipher()
        let sealed = bytes(vector.sealed) + bytes(vector.tag)
        let header = bytes(vector.header)
        #expect(
            open(vector, sealed, header: header, cipher, number: 1) == bytes(vector.plain))
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 1 << UInt8(index % 8)
            #expect(open(vector, changed, header: header, cipher, number: 1) == nil)
        }
        for index in header.indices {
            var changed = header
            changed[index] ^= 0x80
            #expect(open(vector, sealed, header: changed, cipher, number: 1) == nil)
        }
        // The context is as good as new after bytes that were not genuine.
        #expect(
            open(vector, sealed, header: header, cipher, number: 1) == bytes(vector.plain))
    }
}
