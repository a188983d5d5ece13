// SPDX-License-Identifier: Apache-2.0
//
// The reasons why certificates cannot be used and why handshakes fail, as sentences for the operator. Rests on
// OpenSSL's queue of errors.

internal import COpenSSL
internal import Glibc

/// A certificate, key or setting that cannot be used.
public enum TLSSetupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file cannot be read.
    case unreadable(file: String, reason: String)
    /// The text has no certificate in PEM form.
    case noCertificate(place: String)
    /// The text has no private key in PEM form, or the key has a passphrase.
    case noKey(place: String)
    /// The key belongs to another certificate.
    case keyDoesNotFit(certificate: String, key: String)
    /// Certificates stand for senders, and no client is asked for a certificate.
    case sendersWithoutAuthorities(place: String)
    /// The line is no project and subject.
    case badSenderLine(place: String, line: Int)
    /// The certificate is not valid now, and the certificate that it would replace is.
    case notValidNow(certificate: String, begin: Int64, end: Int64)
    /// OpenSSL refuses.
    case refused(what: String, reason: String)

    public var description: String {
        switch self {
        case .unreadable(let file, let reason):
            "\(file) cannot be read (\(reason)). Check the path and the rights of the broker's user."
        case .noCertificate(let place):
            "\(place) has no certificate; PEM begins with -----BEGIN CERTIFICATE-----."
        case .noKey(let place):
            "\(place) has no private key without a passphrase; PEM begins with -----BEGIN PRIVATE KEY-----."
        case .keyDoesNotFit(let certificate, let key):
            "The key in \(key) is not the key of the first certificate in \(certificate)."
        case .sendersWithoutAuthorities(let place):
            "\(place) has the certificates of senders, but no authorities of clients are named."
        case .badSenderLine(let place, let line):
            "Line \(line) of \(place) is not a project, a blank, and the subject of a certificate."
        case .notValidNow(let certificate, let begin, let end):
            "\(certificate) is valid from \(UTCTime.text(begin)) to \(UTCTime.text(end)), and not now."
        case .refused(let what, let reason):
            "\(what) cannot be used: OpenSSL says '\(reason)'."
        }
    }
}

/// The end of a handshake without a session.
public struct TLSHandshakeError: Error, Hashable, Sendable, CustomStringConvertible {
    /// OpenSSL's words.
    public let reason: String

    public var description: String { "TLS handshake: \(reason)" }
}

enum OpenSSLErrors {
    /// Takes all errors of this thread, and returns the words of the newest.
    static func take() -> String {
        var words = "no reason given"
        while case let code = ERR_get_error(), code != 0 {
            words = ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
        }
        return words
    }
}

/// Times of certificates.
enum UTCTime {
    /// Seconds since 1970; nil: the value is no time.
    static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
        var fields = tm()
        guard ASN1_TIME_to_tm(time, &fields) == 1 else { return nil }
        return Int64(timegm(&fields))
    }

    /// A time in the form of ISO 8601.
    static func text(_ seconds: Int64) -> String {
        var (time, fields) = (time_t(seconds), tm())
        gmtime_r(&time, &fields)
        let text = [CChar](unsafeUninitializedCapacity: 32) { bytes, count in
            count = strftime(bytes.baseAddress, bytes.count, "%Y-%m-%dT%H:%M:%SZ", &fields)
        }
        return String(decoding: text.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
