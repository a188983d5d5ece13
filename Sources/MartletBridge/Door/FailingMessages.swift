// SPDX-License-Identifier: Apache-2.0
//
// Keeps track of messages that keep failing at a push service, and tells whether the message is at fault or the service.
//
// A message goes to many instances. If the service never takes it, its deliveries would fill the project's room in the door
// and keep the project resting, and nothing else would get through. So after some failures in a row a message is set aside:
// its deliveries take up no room, and after each rest we try just one of them. As soon as the service answers one, all go on.
// If several messages fail that aren't set aside, with no answer in between, the service is at fault. Pure.

import Martlet

/// A project's failing messages.
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
        /// Failures since the last answer.
        var failures = 0
        var isAside = false
        /// Rests since it was set aside.
        var rests = 0
        /// Whether it rests, or one delivery is being tried after the rest.
        var isResting = false
    }

    private var entries: [Name: Entry] = [:]
    /// By service: messages that aren't set aside and have failed since the last answer.
    private var suspects: [BridgeKind: Set<UInt64>] = [:]

    package init() {}

    /// An attempt has failed.
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

    /// The service has answered: it took the message or said what is wrong with it.
    /// - Returns: whether the message was set aside.
    package mutating func answered(_ name: Name) -> Bool {
        suspects[name.service] = nil
        return entries.removeValue(forKey: name)?.isAside ?? false
    }

    package func isAside(_ name: Name) -> Bool { entries[name]?.isAside ?? false }

    /// Whether the service is at fault, rather than one message.
    package func areOfService(_ service: BridgeKind) -> Bool {
        (suspects[service]?.count ?? 0) >= BridgeLimits.messagesPerRest
    }

    /// Lets a message rest that is set aside.
    /// - Returns: how often it has rested before; nil if it rests already.
    package mutating func beginRest(_ name: Name) -> Int? {
        guard var entry = entries[name], entry.isAside, !entry.isResting else { return nil }
        entry.isResting = true
        entry.rests += 1
        entries[name] = entry
        return entry.rests - 1
    }

    /// Ends a message's rest, or the attempt after it.
    package mutating func endRest(_ name: Name) { entries[name]?.isResting = false }

    /// Forgets everything, because the door has no message of the project left.
    package mutating func forget() {
        entries = [:]
        suspects = [:]
    }
}
