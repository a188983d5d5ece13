// SPDX-License-Identifier: Apache-2.0
//
// A broker and nothing else: opens a data folder, listens, and runs until it is told to stop. It is
// `martlet serve` without argument parsing, for measuring the library by itself.
//
//     bench-broker FOLDER PORT LOOPS [tls] [TRANSPORT]
//
// With `tls` the port speaks TLS, with a certificate made at start.
//
// TRANSPORT: io_uring or epoll; io_uring if not given.
// Rests on the embedding API.

import Glibc
import Martlet
import MartletCrypto

/// Told of SIGTERM and SIGINT; a semaphore may be posted in a signal handler.
nonisolated(unsafe) let stopping = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

@main
enum Main {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let words = arguments.dropFirst(4)
        let kinds = words.filter { $0 != "tls" }
        guard (4...6).contains(arguments.count), kinds.count <= 1, let port = UInt16(arguments[2]),
            let loops = Int(arguments[3]),
            let transport = BrokerConfiguration.TransportKind(
                rawValue: kinds.first ?? "io_uring")
        else {
            print("usage: bench-broker FOLDER PORT LOOPS [tls] [io_uring | epoll]")
            exit(2)
        }
        var configuration = BrokerConfiguration(
            folder: arguments[1], address: .init(port: port))
        configuration.loopCount = loops
        configuration.transport = transport
        if words.contains("tls") {
            let made = try SelfSignedCertificate(names: ["IP:127.0.0.1"])
            configuration.tls = TLSCredentials(
                certificate: .text(made.certificate), key: .text(made.key))
        }
        sem_init(stopping, 0, 0)
        signal(SIGTERM) { _ in sem_post(stopping) }
        signal(SIGINT) { _ in sem_post(stopping) }
        // What is measured is delivery: a device here gets more than a person would.
        configuration.limits = .none
        let broker = try await Broker.open(configuration)
        print("ready \(broker.port ?? 0)")
        fflush(nil)
        await stop()
        let statistics = broker.statistics
        print(
            "delivered \(statistics.deliveredCount) acknowledged \(statistics.acknowledgedCount)",
            "fellBehind \(statistics.fellBehindCount) sends \(statistics.sendCallCount)")
        fflush(nil)
        try await broker.close()
    }

    /// Returns when the process was told to stop; waits on a thread of its own, since a task must not
    /// block.
    static func stop() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let waiting = Unmanaged.passRetained(Waiting(continuation)).toOpaque()
            var thread: pthread_t = 0
            pthread_create(
                &thread, nil,
                { argument in
                    while sem_wait(stopping) != 0 {}
                    Unmanaged<Waiting>.fromOpaque(argument!).takeRetainedValue()
                        .continuation.resume()
                    return nil
                }, waiting)
        }
    }

    final class Waiting: Sendable {
        let continuation: CheckedContinuation<Void, Never>
        init(_ continuation: CheckedContinuation<Void, Never>) { self.continuation = continuation }
    }
}
