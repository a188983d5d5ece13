// SPDX-License-Identifier: Apache-2.0
//
// The options of commands that connect to a TLS port. Rests on ProgramParts.

import ArgumentParser
import MartletClient

/// TLS of a client, on a command line.
struct ClientTLSOptions: ParsableArguments {
    @Flag(help: "Connect over TLS, and trust the system's authorities.")
    var tls = false

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Connect over TLS, and trust the certificates in this PEM file.", valueName: "file"))
    var ca: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "A PEM file with this client's certificate and key, if the broker asks for one.",
            valueName: "file"))
    var clientCertificate: String?

    func validate() throws {
        guard clientCertificate == nil || tls || ca != nil else {
            throw ValidationError("--client-certificate goes with --tls or --ca.")
        }
    }

    private func encryption() throws -> Encryption? {
        guard tls || ca != nil else { return nil }
        return try ProgramParts.encryption(
            trusting: ca.map { .authorities(file: $0) } ?? .system, certificate: clientCertificate)
    }

    func applied(to options: ClientOptions) throws -> ClientOptions {
        var options = options
        options.encryption = try encryption()
        return options
    }

    func applied(to options: DeviceOptions) throws -> DeviceOptions {
        var options = options
        options.encryption = try encryption()
        return options
    }
}
