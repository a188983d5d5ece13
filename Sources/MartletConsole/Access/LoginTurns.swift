// SPDX-License-Identifier: Apache-2.0
//
// Logins, one at a time: a digest of a password takes 32 MiB and some 60 ms. Wrong passwords of a user make the next attempt
// for that user wait, twice as long each time, up to ten seconds. The gateway holds back wrong credentials of an address
// besides (REG-10). Rests on PasswordRecord.

import Martlet
import MartletAccess
import Synchronization

/// Compares passwords in turns.
actor LoginTurns {
    private struct Failures {
        var count = 0
        var next = ContinuousClock.now
    }

    private static let waitMax = Duration.seconds(10)
    /// Wrong passwords of a user before the next attempt waits.
    private static let freeCount = 5
    /// Users with wrong passwords that are kept, at most. Only users that exist are kept.
    private static let failuresMax = Limits.consoleUsersMax

    /// Logins that wait for their turn: some two seconds.
    private static let waitingMax = 32

    private let waitingCount = Atomic<Int>(0)
    private var failures: [String: Failures] = [:]

    /// Whether a password is the one of the user.
    /// - Parameter user: nil: there is no such user. The answer takes as long.
    /// - Throws: with a retry delay `RESOURCE_EXHAUSTED`, if the user had too many wrong passwords, and `UNAVAILABLE`, if
    ///   too many logins wait.
    nonisolated func isRight(
        _ password: String, of user: ConsoleUser?
    ) async throws(MartletError) -> Bool {
        defer { waitingCount.subtract(1, ordering: .relaxed) }
        guard waitingCount.add(1, ordering: .relaxed).newValue <= Self.waitingMax else {
            throw MartletError(
                .unavailable, "Too many people sign in at a time; try again in a moment.",
                retryDelayMilliseconds: 2000)
        }
        return try await compare(password, with: user)
    }

    private func compare(
        _ password: String, with user: ConsoleUser?
    ) throws(MartletError) -> Bool {
        let now = ContinuousClock.now
        if let user, let known = failures[user.name], known.next > now {
            let milliseconds = (known.next - now) / .milliseconds(1)
            throw MartletError(
                .resourceExhausted, "There were too many wrong passwords; try again in a moment.",
                retryDelayMilliseconds: UInt32(max(1, milliseconds)))
        }
        let isRight = (user?.password ?? .ofNobody).isRight(password)
        guard let user else { return false }
        if isRight {
            failures[user.name] = nil
        } else {
            var known = failures[user.name] ?? Failures()
            known.count += 1
            if known.count > Self.freeCount {
                let doubled =
                    Duration.milliseconds(250) * (1 << min(known.count - Self.freeCount, 6))
                known.next = now + min(doubled, Self.waitMax)
            }
            if failures.count >= Self.failuresMax { failures = [:] }
            failures[user.name] = known
        }
        return isRight
    }
}
