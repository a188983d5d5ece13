// SPDX-License-Identifier: Apache-2.0
//
// A broker and nothing else: opens a data folder, listens, and runs until it is told to stop. It is
// `martlet serve` without argument parsing, for measuring the library by itself.
//
//     bench-broker FOLDER PORT LOOPS
//
// Rests on the embedding API.

import Glibc
import Martlet

@main
enum Main {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let port = UInt16(arguments[2]), let loops = Int(arguments[3])
        else {
            print("usage: bench-broker FOLDER PORT LOOPS")
            exit(2)
        }
        var configuration = BrokerConfiguration(
            folder: arguments[1], address: .init(port: port))
        configuration.loopCount = loops
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let broker = try await Broker.open(configuration)
        print("ready \(broker.port ?? 0)")
        fflush(nil)
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            waitForSignal { continuation.resume() }
        }
        try await broker.close()
        let statistics = broker.statistics
        print(
            "delivered \(statistics.deliveredCount) acknowledged \(statistics.acknowledgedCount)",
            "fellBehind \(statistics.fellBehindCount) sends \(statistics.sendCallCount)")
    }
}

/// Calls back from a thread of its own, since a task must not block.
func waitForSignal(_ body: @escaping @Sendable () -> Void) {
    final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread: pthread_t = 0
    pthread_create(
        &thread, nil,
        { argument in
            var signals = sigset_t()
            sigemptyset(&signals)
            sigaddset(&signals, SIGTERM)
            sigaddset(&signals, SIGINT)
            var number: Int32 = 0
            sigwait(&signals, &number)
            Unmanaged<Box>.fromOpaque(argument!).takeRetainedValue().body()
            return nil
        }, Unmanaged.passRetained(Box(body)).toOpaque())
}
