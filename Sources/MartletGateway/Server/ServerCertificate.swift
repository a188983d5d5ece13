// SPDX-License-Identifier: Apache-2.0
//
// A door's certificate, which can be reloaded while the door serves (OPS-11). A handshake asks for the certificate in use, so
// the settings of TLS and the listening socket stay. Rests on EditedText and swift-nio-ssl.

import Glibc
package import Logging
package import Martlet
import MartletFiles
import NIOCore
package import NIOSSL
import Synchronization

/// Certificate and key of a door, read from files.
package final class ServerCertificate: Sendable {
    private struct Pair: Sendable {
        let chain: [NIOSSLCertificate]
        let key: NIOSSLPrivateKey

        /// First and last second of the certificate, since 1970.
        var validity: (begin: Int64, end: Int64) {
            chain.first.map { (Int64($0.notValidBefore), Int64($0.notValidAfter)) } ?? (0, 0)
        }

        var isValid: Bool {
            let now = Int64(time(nil))
            return validity.begin <= now && now <= validity.end
        }
    }

    private let files: GatewayConfiguration.Certificate
    /// The beginning of the names of the settings: `http` for `http-certificate` and `http-key`.
    private let setting: String
    private let pair: Mutex<Pair>

    /// - Parameter setting: the beginning of the names of the two settings, for errors and the log.
    /// - Throws: `INVALID_ARGUMENT` with the file that cannot be used.
    package init(
        _ files: GatewayConfiguration.Certificate, setting: String
    ) throws(MartletError) {
        self.files = files
        self.setting = setting
        pair = Mutex(try Self.read(files, setting))
    }

    /// Reads the files again. After an error the certificate stays as it was. A certificate that is not valid now does
    /// not replace one that is.
    /// - Returns: whether the certificate is another than before.
    package func reload() throws(MartletError) -> Bool {
        let new = try Self.read(files, setting)
        guard new.isValid || !pair.withLock({ $0.isValid }) else {
            throw MartletError(
                .invalidArgument,
                """
                \(files.chain) is valid from \(Day(ofSecond: new.validity.begin)) to \
                \(Day(ofSecond: new.validity.end)), and not now.
                """, field: "\(setting)-certificate")
        }
        return pair.withLock { pair in
            defer { pair = new }
            return pair.chain != new.chain
        }
    }

    /// The settings of a server that takes the certificate anew for each handshake.
    package var configuration: TLSConfiguration {
        var configuration = Self.configuration(pair.withLock { $0 })
        configuration.sslContextCallback = { [self] _, promise in
            let pair = pair.withLock { $0 }
            var change = NIOSSLContextConfigurationOverride()
            change.certificateChain = pair.chain.map { .certificate($0) }
            change.privateKey = .privateKey(pair.key)
            promise.succeed(change)
        }
        return configuration
    }

    /// OPS-6: warns of the certificate's end until the task is cancelled.
    package func watch(by broker: Broker, _ logger: Logger) async {
        var watch = CertificateWatch("\(setting)-certificate", logger)
        repeat {
            watch.look(pair.withLock { $0.validity }, at: broker.now)
        } while (try? await Task.sleep(for: .seconds(60))) != nil
    }

    private static func configuration(_ pair: Pair) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: pair.chain.map { .certificate($0) }, privateKey: .privateKey(pair.key)
        )
        configuration.minimumTLSVersion = .tlsv12
        configuration.shutdownTimeout = .milliseconds(Limits.tlsCloseMilliseconds)
        return configuration
    }

    private static func read(
        _ files: GatewayConfiguration.Certificate, _ setting: String
    ) throws(MartletError) -> Pair {
        let chain =
            (try? NIOSSLCertificate.fromPEMBytes(EditedText(contentsOf: files.chain).bytes)) ?? []
        guard !chain.isEmpty else {
            throw MartletError(
                .invalidArgument,
                "'\(files.chain)' cannot be read, or has no certificate in PEM form.",
                field: "\(setting)-certificate")
        }
        guard
            let key = try? NIOSSLPrivateKey(
                bytes: EditedText(contentsOf: files.key).bytes, format: .pem)
        else {
            throw MartletError(
                .invalidArgument,
                "'\(files.key)' cannot be read, or has no private key in PEM form.",
                field: "\(setting)-key")
        }
        let pair = Pair(chain: chain, key: key)
        do { _ = try NIOSSLContext(configuration: configuration(pair)) } catch {
            throw MartletError(
                .invalidArgument,
                "The key in '\(files.key)' is not the key of the first certificate in '\(files.chain)'.",
                field: "\(setting)-key")
        }
        return pair
    }
}
