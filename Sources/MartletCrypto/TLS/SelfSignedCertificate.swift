// SPDX-License-Identifier: Apache-2.0
//
// A certificate that vouches for itself, made in memory: for the demo and for tests. Clients recognise it by its
// fingerprint or are given it as an authority. Rests on OpenSSL.

internal import COpenSSL

/// A certificate with its own key as authority (ECDSA, P-256).
public struct SelfSignedCertificate: Sendable {
    /// The certificate in PEM form.
    public let certificate: String
    /// The private key in PEM form.
    public let key: String
    /// SHA-256 of the certificate in DER form.
    public let fingerprint: [UInt8]

    /// - Parameters:
    ///   - names: names of the server, such as `DNS:localhost` and `IP:127.0.0.1`.
    ///   - days: days for which the certificate is good.
    public init(
        names: [String], commonName: String = "Martlet", days: Int = 30
    ) throws(TLSSetupError) {
        func refused() -> TLSSetupError {
            .refused(what: "A new certificate", reason: OpenSSLErrors.take())
        }
        guard let pair = martlet_make_p256_key(), let certificate = X509_new() else {
            throw refused()
        }
        defer {
            EVP_PKEY_free(pair)
            X509_free(certificate)
        }
        // A serial number of 63 random bits: clients tell certificates of one issuer apart by the number.
        var serial: UInt64 = 0
        _ = withUnsafeMutableBytes(of: &serial) { RAND_bytes($0.baseAddress, 8) }
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1)
        X509_set_version(certificate, 2)
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600)
        X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86_400)
        X509_set_pubkey(certificate, pair)
        let subject = X509_get_subject_name(certificate)
        let isNamed = X509_NAME_add_entry_by_txt(
            subject, "CN", martlet_utf8_text(), commonName, -1, -1, 0)
        X509_set_issuer_name(certificate, subject)
        let extensions = [
            (NID_basic_constraints, "critical,CA:TRUE"),
            (NID_subject_alt_name, names.joined(separator: ",")),
        ]
        for (kind, value) in extensions where !value.isEmpty {
            guard let made = X509V3_EXT_conf_nid(nil, nil, kind, value) else { throw refused() }
            X509_add_ext(certificate, made, -1)
            X509_EXTENSION_free(made)
        }
        guard isNamed == 1, X509_sign(certificate, pair, EVP_sha256()) > 0,
            let text = Self.text({ PEM_write_bio_X509($0, certificate) }),
            let keyText = Self.text({
                PEM_write_bio_PrivateKey($0, pair, nil, nil, 0, nil, nil)
            })
        else { throw refused() }
        self.certificate = text
        key = keyText
        var digest = [UInt8](repeating: 0, count: 32)
        X509_digest(certificate, EVP_sha256(), &digest, nil)
        fingerprint = digest
    }

    private static func text(_ write: (OpaquePointer) -> Int32) -> String? {
        guard let output = BIO_new(BIO_s_mem()) else { return nil }
        defer { BIO_free(output) }
        guard write(output) == 1 else { return nil }
        let count = martlet_bio_pending(output)
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { bytes, initialized in
            initialized = Int(max(BIO_read(output, bytes.baseAddress, Int32(count)), 0))
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
