// SPDX-License-Identifier: Apache-2.0
//
// A ring belongs to one thread and test clients block, so tests run their parts on threads of their
// own and wait for all without blocking the test runner's. Rests on Foundation's Thread.

import Foundation
import Synchronization
import Testing

/// Runs all bodies at once, each on a thread of its own, and waits for them; throws the first error.
func together(_ bodies: @Sendable () throws -> Void...) async throws {
    try await together(bodies)
}

/// The same with one body and many copies of another, which are told their number.
func together(
    _ one: @escaping @Sendable () throws -> Void, copies: Int,
    _ other: @escaping @Sendable (Int) throws -> Void
) async throws {
    var bodies: [@Sendable () throws -> Void] = [one]
    for number in 0..<copies { bodies.append({ try other(number) }) }
    try await together(bodies)
}

private func together(_ bodies: [@Sendable () throws -> Void]) async throws {
    let errors = Errors()
    await withTaskGroup(of: Void.self) { group in
        for body in bodies {
            group.addTask {
                await withCheckedContinuation { done in
                    let thread = Thread {
                        do { try body() } catch { errors.add(error) }
                        done.resume()
                    }
                    thread.stackSize = 256 * 1024
                    thread.start()
                }
            }
        }
    }
    if let first = errors.first { throw first }
}

private final class Errors: Sendable {
    private let errors = Mutex<[any Error]>([])

    func add(_ error: any Error) { errors.withLock { $0.append(error) } }
    var first: (any Error)? { errors.withLock { $0.first } }
}

/// A value that one thread gives and others wait for.
final class Handoff<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)
    private let given = DispatchSemaphore(value: 0)

    func give(_ value: Value) {
        self.value.withLock { $0 = value }
        given.signal()
    }

    /// Waits; fails rather than hangs when the other side has died.
    func take() throws -> Value {
        guard given.wait(timeout: .now() + 60) == .success else { throw Failure("nobody gave") }
        given.signal()
        return value.withLock { $0! }
    }
}

struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
