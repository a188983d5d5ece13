// SPDX-License-Identifier: Apache-2.0
//
// Logins in turn: a digest of a password takes 32 MiB and some 60 ms. Wrong passwords for a name from a network make the
// next attempt from there wait, twice as long each time, up to ten seconds. Very many wrong passwords for a name, from all
// networks, make every unknown browser wait. Unknown names are counted too, so a wait does not tell an existing name. Rests
// on PasswordRecord.

import Martlet
import MartletAnswers
import Synchronization

/// An attempt to sign in with a password.
struct LoginAttempt: Sendable {
    let name: String
    let password: String
    /// nil: there is no user of the name. The answer takes as long.
    let user: ConsoleUser?
    /// Network of the browser.
    let network: String
    /// Whether the browser has signed in as this user before.
    let isKnown: Bool
}

/// Compares passwords in turns.
actor LoginTurns {
    /// Wrong passwords for a name, from a network or from all browsers that are known.
    private struct Place: Hashable {
        var name: String
        /// nil: browsers that are known.
        var network: String?
    }

    private static let waitMax = Duration.seconds(10)
    /// Wrong passwords for a name from a network before the next attempt waits.
    private static let freeCount = 5
    /// Wrong passwords for a name from all networks before attempts of unknown browsers wait.
    private static let freeCountOfAll = 200

    private nonisolated let waiting = Mutex(LoginsWaiting())
    private var byPlace = FailureTable<Place>()
    private var byName = FailureTable<String>()

    /// Whether a password is the one of the user.
    /// - Returns: the number of wrong passwords before this right one; nil for a wrong password.
    /// - Throws: with a retry delay `RESOURCE_EXHAUSTED`, if there were too many wrong passwords, and `UNAVAILABLE`, if
    ///   too many logins wait.
    nonisolated func compare(_ attempt: LoginAttempt) async throws(MartletError) -> Int? {
        guard waiting.withLock({ $0.enter(attempt) }) else {
            throw MartletError(
                .unavailable, "Too many people sign in at a time; try again in a moment.",
                retryDelayMilliseconds: 2000)
        }
        defer { waiting.withLock { $0.leave(attempt) } }
        return try await compareNow(attempt)
    }

    private func compareNow(_ attempt: LoginAttempt) throws(MartletError) -> Int? {
        let now = ContinuousClock.now
        // No user has a longer name, and a longer name is kept nowhere.
        let name = attempt.name.utf8.count <= 64 ? attempt.name : ""
        let place = Place(name: name, network: attempt.isKnown ? nil : attempt.network)
        let waits = [
            byPlace.wait(place, at: now), attempt.isKnown ? nil : byName.wait(name, at: now),
        ]
        if let wait = waits.compactMap({ $0 }).max() {
            throw MartletError(
                .resourceExhausted, "There were too many wrong passwords; try again in a moment.",
                retryDelayMilliseconds: UInt32(max(1, wait / .milliseconds(1))))
        }
        let isRight = (attempt.user?.password ?? .ofNobody).isRight(attempt.password)
        guard isRight, attempt.user != nil else {
            byPlace.add(place, at: now) { count in
                guard count > Self.freeCount else { return nil }
                return min(.milliseconds(250) * (1 << min(count - Self.freeCount, 6)), Self.waitMax)
            }
            byName.add(name, at: now) { $0 > Self.freeCountOfAll ? Self.waitMax : nil }
            return nil
        }
        byPlace.remove(place)
        return byName.remove(name)
    }
}

/// Logins that wait for their turn, in all and by network. Browsers that are known have places of their own.
private struct LoginsWaiting: Sendable {
    private var count = 0
    private var ofKnown = 0
    private var ofNetwork: [String: Int] = [:]

    mutating func enter(_ attempt: LoginAttempt) -> Bool {
        if attempt.isKnown {
            guard ofKnown < Limits.consoleLoginsPerNetworkMax else { return false }
            ofKnown += 1
            return true
        }
        guard count < Limits.consoleLoginsWaitingMax,
            ofNetwork[attempt.network, default: 0] < Limits.consoleLoginsPerNetworkMax
        else { return false }
        count += 1
        ofNetwork[attempt.network, default: 0] += 1
        return true
    }

    mutating func leave(_ attempt: LoginAttempt) {
        if attempt.isKnown {
            ofKnown -= 1
            return
        }
        count -= 1
        let left = ofNetwork[attempt.network, default: 1] - 1
        ofNetwork[attempt.network] = left > 0 ? left : nil
    }
}
