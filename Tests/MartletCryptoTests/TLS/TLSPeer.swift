// SPDX-License-Identifier: Apache-2.0
//
// Sessions of the record layer without sockets: with secrets of the test's choice, and after a handshake with OpenSSL's
// client. Rests on TLSPeers.

import COpenSSL
import Glibc
import MartletCrypto
import TLSPeers
import Testing

/// The credentials of a test's server.
func makeCredentials(names: [String] = ["DNS:localhost"]) throws -> TLSCredentials {
    let made = try SelfSignedCertificate(names: names)
    return TLSCredentials(certificate: .text(made.certificate), key: .text(made.key))
}

/// A session of the record layer in memory of its own.
final class TestSession {
    private var layer: TLSRecordLayer
    private let table = TLSSessionTable(capacity: 1)
    private(set) var hasPeerClosed = false
    var session: UnsafeMutablePointer<TLSSession> { table[0] }

    init(_ secrets: borrowing TLSSecrets, recordsPerKeyMax: UInt64 = TLSLimits.recordsPerKeyMax) {
        layer = TLSRecordLayer(recordsPerKeyMax: recordsPerKeyMax)
        layer.begin(session, secrets)
    }

    deinit { layer.end(session) }

    /// Begins another session.
    func restart(_ secrets: borrowing TLSSecrets) {
        layer.end(session)
        layer.begin(session, secrets)
        hasPeerClosed = false
    }

    func seal(_ pieces: [[UInt8]]) -> [UInt8] {
        let flat = pieces.flatMap { $0 }
        let total = flat.count
        return flat.withUnsafeBytes { bytes in
            var at = 0
            let vectors = pieces.map { piece in
                defer { at += piece.count }
                return iovec(
                    iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress!) + at,
                    iov_len: piece.count)
            }
            var output = [UInt8](repeating: 0, count: layer.sealedBytesMax(total, session))
            let count = vectors.withUnsafeBufferPointer { vectors in
                output.withUnsafeMutableBytes {
                    layer.seal(session, vectors, plainBytes: total, into: $0)
                }
            }
            #expect(count <= output.count)
            return Array(output[..<count])
        }
    }

    func seal(_ bytes: [UInt8]) -> [UInt8] { seal([bytes]) }

    func alert(_ alert: TLSAlert) -> [UInt8] {
        write(TLSRecordLayer.alertBytes) { layer.sealAlert(alert, session, into: $0) }
    }

    func changeKey(asking: Bool) -> [UInt8] {
        write(TLSRecordLayer.keyUpdateBytes) { layer.changeKey(session, asking: asking, into: $0) }
    }

    func changeKeyIfDue() -> [UInt8] {
        write(TLSRecordLayer.keyUpdateBytes) { layer.changeKeyIfDue(session, into: $0) }
    }

    private func write(
        _ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int
    ) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: count)
        let written = output.withUnsafeMutableBytes(body)
        return Array(output[..<written])
    }

    /// Opens the records of a chunk.
    func open(_ chunk: [UInt8]) throws -> [UInt8] {
        var plain: [UInt8] = []
        var chunk = chunk
        try chunk.withUnsafeMutableBytes { bytes in
            var rest = bytes
            while true {
                switch try layer.next(session, from: &rest) {
                case .data(let data): plain += data
                case .nothing: return
                case .closed:
                    hasPeerClosed = true
                    return
                case .failed(let alert): throw PeerAlert(number: alert)
                }
            }
        }
        return plain
    }
}

struct PeerAlert: Error { let number: UInt8 }

/// Secrets of the given bytes.
func makeSecrets(
    _ suite: TLSCipherSuite, receiving: [UInt8], sending: [UInt8], sentRecords: UInt64 = 0,
    recordPlainBytes: Int = TLSLimits.recordPlainBytesMax
) -> TLSSecrets {
    TLSSecrets(
        suite: suite, receiving: receiving.span.bytes, sending: sending.span.bytes,
        sentRecords: sentRecords, recordPlainBytes: recordPlainBytes)
}

/// Both sides of a connection with made-up secrets.
struct SessionPair {
    let one: TestSession
    let other: TestSession

    init(
        _ suite: TLSCipherSuite = .aes128GCM, recordsPerKeyMax: UInt64 = TLSLimits.recordsPerKeyMax
    ) {
        one = TestSession(Self.secrets(suite, swapped: false), recordsPerKeyMax: recordsPerKeyMax)
        other = TestSession(Self.secrets(suite, swapped: true), recordsPerKeyMax: recordsPerKeyMax)
    }

    func restart(_ suite: TLSCipherSuite) {
        one.restart(Self.secrets(suite, swapped: false))
        other.restart(Self.secrets(suite, swapped: true))
    }

    private static func secrets(_ suite: TLSCipherSuite, swapped: Bool) -> TLSSecrets {
        let a = [UInt8]((0..<suite.hashBytes).map { UInt8($0) })
        let b = [UInt8]((0..<suite.hashBytes).map { UInt8(200 - $0) })
        return makeSecrets(suite, receiving: swapped ? b : a, sending: swapped ? a : b)
    }
}

/// A handshake between OpenSSL's client and the server under test.
struct Established {
    let client: TLSClient
    let server: TestSession
    let isResumed: Bool
    let clientName: String?
    /// Bytes that came with the last flight.
    let rest: [UInt8]
}

struct HandshakeFailure: Error {
    var reason: String
    var output: [UInt8]
}

/// - Parameters:
///   - chunkBytes: bytes given to each side at a time.
///   - early: what the client sends with its last flight.
func shakeHands(
    _ context: TLSServerContext, _ settings: TLSClientContext, chunkBytes: Int = .max,
    early: [UInt8] = [], prepare: (TLSClient) -> Void = { _ in }
) throws -> Established {
    let client = TLSClient(settings)
    prepare(client)
    let handshake = TLSHandshake(context)
    var isClientDone = false
    for _ in 0..<10 {
        if !isClientDone, client.shake() {
            isClientDone = true
            client.write(early)
        }
        var flight = client.take()[...]
        while !flight.isEmpty {
            let chunk = flight.prefix(chunkBytes)
            flight = flight.dropFirst(chunk.count)
            Array(chunk).withUnsafeBytes { handshake.receive($0) }
            let step = handshake.step()
            let output = handshake.takeOutput()
            switch step {
            case .waits: client.give(output)
            case .failed(let error): throw HandshakeFailure(reason: error.reason, output: output)
            case .done:
                client.give(output)
                guard let secrets = handshake.secrets(lastOutput: output) else {
                    throw HandshakeFailure(reason: "no secrets", output: output)
                }
                return Established(
                    client: client, server: TestSession(secrets), isResumed: handshake.isResumed,
                    clientName: handshake.clientName, rest: handshake.takeRest() + flight)
            }
        }
    }
    throw HandshakeFailure(reason: "no end", output: [])
}

func bytes(_ hexadecimal: String) -> [UInt8] {
    let digits = hexadecimal.filter { !$0.isWhitespace }
    return stride(from: 0, to: digits.count, by: 2).map { at in
        let start = digits.index(digits.startIndex, offsetBy: at)
        return UInt8(digits[start...digits.index(after: start)], radix: 16)!
    }
}
