// SPDX-License-Identifier: Apache-2.0
//
// The messages of a project that keep failing at a push service, and whether the message is at fault or the service. A
// message goes to many instances, and one that the service never takes would use up the project's rests and its room in the
// door, so that nothing else of the project got through. So a message whose deliveries have failed some times in a row is
// set aside: its deliveries do not count for the room, and after each rest a single one of them is tried. As soon as the
// service says anything else of one of them, all go on. The service itself is at fault if several messages fail that are not
// set aside, and none is answered between. Pure.

import Martlet

/// The failing messages of a project.
package struct FailingMessages {
    /// A sender's message at a service.
    package struct Name: Hashable, Sendable {
        package var service: BridgeKind
        package var number: UInt64

        package init(_ service: BridgeKind, _ number: UInt64) {
            (self.service, self.number) = (service, number)
        }
    }

    private struct Entry {
        /// Failed attempts since the last other answer.
        var failures = 0
        var isAside = false
        /// Rests since the message was set aside.
        var rests = 0
        /// Whether a rest runs, or a single delivery is being tried after it.
        var isResting = false
    }

    private var entries: [Name: Entry] = [:]
    /// By service: messages that have failed since the last other answer, and are not set aside.
    private var suspects: [BridgeKind: Set<UInt64>] = [:]

    package init() {}

    /// Notes that an attempt has failed.
    package mutating func failed(_ name: Name) {
        var entry = entries[name] ?? Entry()
        entry.failures += 1
        if entry.failures >= BridgeLimits.failuresPerRest {
            entry.isAside = true
            suspects[name.service]?.remove(name.number)
        } else {
            suspects[name.service, default: []].insert(name.number)
        }
        entries[name] = entry
    }

    /// Notes that the service has answered an attempt: it takes messages, or says what is wrong with this one.
    /// - Returns: whether the message was set aside.
    package mutating func answered(_ name: Name) -> Bool {
        suspects[name.service] = nil
        return entries.removeValue(forKey: name)?.isAside ?? false
    }

    package func isAside(_ name: Name) -> Bool { entries[name]?.isAside ?? false }

    /// Whether the failures are of the service, and not of one message.
    package func areOfService(_ service: BridgeKind) -> Bool {
        (suspects[service]?.count ?? 0) >= BridgeLimits.messagesPerRest
    }

    /// Begins the rest of a message that is set aside.
    /// - Returns: its rests before; nil if the message rests already.
    package mutating func beginRest(_ name: Name) -> Int? {
        guard var entry = entries[name], entry.isAside, !entry.isResting else { return nil }
        entry.isResting = true
        entry.rests += 1
        entries[name] = entry
        return entry.rests - 1
    }

    /// Ends the rest of a message, and the attempt after it.
    package mutating func endRest(_ name: Name) { entries[name]?.isResting = false }

    /// Forgets everything: the door has no message of the project.
    package mutating func forget() {
        entries = [:]
        suspects = [:]
    }
}
