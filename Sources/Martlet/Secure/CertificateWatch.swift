// SPDX-License-Identifier: Apache-2.0
//
// Warns when a certificate's dates will make clients refuse it: at once, and then daily from two weeks before it expires
// (OPS-6). A broker serves such a certificate all the same, because a client that knows the certificate by its SHA-256 looks
// at no date. The owner of the watch calls `look` from time to time. Rests on swift-log.

package import Logging
package import MartletBase
import MartletCrypto

/// Warns in the log before the end of one certificate, and after the end.
package struct CertificateWatch: Sendable {
    /// Days before the end of a certificate from which on the log warns.
    package static let daysBefore: Int64 = 14
    private static let daySeconds: Int64 = 86_400

    private let setting: String
    private let logger: Logger
    /// The end of the certificate of the last warning, and the time of the warning, in seconds since 1970.
    private var told: (end: Int64, at: Int64)?

    /// - Parameter setting: name of the setting that has the certificate's file.
    package init(_ setting: String, _ logger: Logger) {
        self.setting = setting
        self.logger = logger
    }

    /// Warns, unless the last warning about this certificate is younger than a day.
    /// - Parameter validity: first and last second of the certificate, since 1970.
    package mutating func look(_ validity: (begin: Int64, end: Int64), at now: Instant) {
        let second = now.millisecondsSince1970 / 1000
        guard
            second < validity.begin
                || second >= validity.end - Self.daysBefore * Self.daySeconds
        else { return }
        if let told, told.end == validity.end, (0..<Self.daySeconds).contains(second - told.at) {
            return
        }
        told = (validity.end, second)
        var metadata: Logger.Metadata = ["setting": "\(setting)"]
        if second < validity.begin {
            metadata["begins"] = "\(Day(ofSecond: validity.begin))"
            logger.error(
                "the certificate is not valid yet, and clients refuse it", metadata: metadata)
        } else if second > validity.end {
            metadata["ended"] = "\(Day(ofSecond: validity.end))"
            logger.error("the certificate has expired, and clients refuse it", metadata: metadata)
        } else {
            metadata["ends"] = "\(Day(ofSecond: validity.end))"
            metadata["days"] = "\((validity.end - second) / Self.daySeconds)"
            logger.warning(
                "the certificate ends soon; replace the files, and send SIGHUP", metadata: metadata)
        }
    }
}

extension Day {
    /// - Parameter second: a second since 1970.
    package init(ofSecond second: Int64) {
        self.init(of: Instant(millisecondsSince1970: second * 1000))
    }
}

extension TLSServerContext {
    /// The certificate for a line of the log: SHA-256 as `openssl x509 -fingerprint -sha256` computes, and the last day.
    var description: Logger.Metadata {
        [
            "certificate": "sha256 \(Hexadecimal.encode(fingerprint))",
            "ends": "\(Day(ofSecond: validity.end))",
        ]
    }
}
