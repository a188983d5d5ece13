// SPDX-License-Identifier: Apache-2.0
//
// The reasons why certificates cannot be used and why handshakes fail, as sentences for the operator. Rests on
// OpenSSL's queue of errors.

internal import COpenSSL

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
