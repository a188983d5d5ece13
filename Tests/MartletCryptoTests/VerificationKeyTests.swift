// SPDX-License-Identifier: Apache-2.0
//
// A key that does not fit its algorithm verifies nothing, also where the key was stored without a check. Keys and
// signatures were made with OpenSSL's command.

import Foundation
import MartletBase
import MartletCrypto
import Testing

@Suite("Keys that verify signatures")
struct VerificationKeyTests {
    /// A public key in DER, and the key's right signature of `message`.
    struct Signed: Sendable {
        var key: [UInt8]
        var signature: [UInt8]

        init(key: String, signature: String) {
            self.key = Array(Data(base64Encoded: key) ?? Data())
            self.signature = Array(Data(base64Encoded: signature) ?? Data())
        }
    }

    private static let message = Array("message".utf8)

    private static let rsa2048 = Signed(
        key: """
            MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAyx7F5MJNIiTaGx0tJAbWWE5dy88Tmg7kaMLar3Zuno3+\
            aq5ZcH9zixiSPvMNLjGcgyu4d9TI4PjO0szxTfzCzuytscew1kvTGUZnR6qHKxCOpSvVhdTxW9jiDpml4JSnkopa\
            fBgwsTuD6xuvgs1rzQQn2SKB/lKgpP8C0NtsPwOxT222KUfj136bNf72UggvcTmhv21DJ3Zg029E6mtcaQOoRr1D\
            9UXA7nZ+pPo0YOW8oAh7ifyqhkoHWHre9+SqpZFSjY+SrZ2QpPx7rc9u47F+KWj4zaA0kZmTJY3QLRFmUK9b4nJz\
            xa5opOoE8kNs3zdM9qgovaGl/Dyk6kzglwIDAQAB
            """,
        signature: """
            r08cwF2TCVNSNSnXL6XDrp/MXOm45HPaFnQc5eElz2Z02otXiSgvw79cK+VpINPC3ATULHnF6sPiem9T4J4KPN5k\
            9dxUo2qCePHqjtdh6RRYIuUHFFZcadQHIecB0XQ9LctSC2NuzG9MdEA9NAQ8hHIlqtfHUA6+0DjTtwvFbb8tB49c\
            6sIAOvl6NxglmDByU9Z16Ujs0Q2qle/9tJnHOjebxplb9+eaUeq5A3FXgPb14qx0jXNh4MdpCAB9kZ/Fm2ZdPQH4\
            xv+jHP5q/Awyebx3HCZIwEB1N3ZtgCdovaFLbSs6uFfzSyKZbfgcWNYmvKuCSZrO8JdRDMZ6HfttnQ==
            """)

    private static let rsa1024 = Signed(
        key: """
            MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC+hWElJqBFGs2J6dJ0lmTOax06ZIPhfI8NLNAAupZVIz8s/RLh\
            IrhLhX/F+mU7MJ5PMbONDFFh4xtgZOfisLMkplSWwpnndFAU4YEaJTnE5H0hR2Kf8AlRhSpJJtQ/MCGWjNe8jy3L\
            /I0Chq+5ZrNyUu3S99kgWX6KQvxW6ltAzQIDAQAB
            """,
        signature: """
            EVTuEQtoj+YWoNEdotq49FwV+gRaRpyh8FrKYpteE30QARl95FKuON7e2mzMFBjopGB+04S6eGQXRu/+5OHWzgvO\
            u++BuFYkAn2gfV44gfdqbLVXqbDmlj6lJC9yzdjZBjuzj5FuQSBKvH7IcgpTnkbEVC4nUu91dt6NVD02mlE=
            """)

    private static let onP256 = Signed(
        key: """
            MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEt3N0aIlYY3nWUGvRRE+zVbnNXNwLMjnzSzLKPdszygiRcxrkq7HS\
            OxvGExBORb+03LDNh2LnMtqum1P4yH5M6A==
            """,
        signature: """
            MEUCIQC0wV6yYqV+Mxdg9qMxJq4Y+cImQxw2UwvXciRSNZvt4gIgTifc9IEMo+2zVfLmslNSsZFT7P8TGh8SGFdS\
            MiVgHcs=
            """)

    private static let onSecp256k1 = Signed(
        key: """
            MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAE4YV5S764GlqB5blrt616XZn21OOEu8m+vf3Jua+7UDdc1rayZN6VoXfW\
            oYqVlvHBzd5mjLpEr1zDLXgW8LxSWA==
            """,
        signature: """
            2y7GVZrgvh35qz3R0Na4xnDWoGMv2YFsUuWqDcrk5W34KZ/D4DRNQypqGzt2txmCfWw8gUlwRNy9Cj7EyHRpkw==
            """)

    @Test("GW-3 REG-8 an RSA key of 2048 bits verifies its signature, and no other message")
    func fits() {
        let key = VerificationKey(.rs256, material: Self.rsa2048.key)
        #expect(key.verifies(Self.rsa2048.signature, over: Self.message))
        #expect(!key.verifies(Self.rsa2048.signature, over: Array("another".utf8)))
    }

    @Test(
        "GW-3 REG-8 a short RSA key and a key of another kind verify nothing",
        arguments: [
            (TicketAlgorithm.rs256, rsa1024), (.rs256, onP256), (.es256, onSecp256k1),
        ])
    func doesNotFit(algorithm: TicketAlgorithm, signed: Signed) {
        let key = VerificationKey(algorithm, material: signed.key)
        #expect(!signed.key.isEmpty && !signed.signature.isEmpty)
        #expect(!key.verifies(signed.signature, over: Self.message))
    }
}
