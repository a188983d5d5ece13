// SPDX-License-Identifier: Apache-2.0
//
// Instances that are registered and have not got their tokens yet. A token that nobody has read
// addresses nobody, and every `!( … )` condition would count its instance for ever. So a registration
// stays only if its WELCOME, which tells the token, began to leave while the peer's connection lasted;
// else the instance is unregistered again. What can go wrong, in the order of time:
//
//   the connection ends before the registration is on disk     the outcome finds no connection
//   the connection ends before WELCOME is handed to the kernel  `newcomers` still has the instance
//   the connection ends later                                   the instance stays: the token left
//
// Rests on Loop.

import MartletBase
import MartletEngine
import MartletRows

/// An instance whose token has not left the broker.
struct Newcomer: Sendable {
    let project: ProjectNumber
    let ordinal: Ordinal
    let holder: Holder

    init(_ instance: Instance) {
        project = instance.project
        ordinal = instance.ordinal
        holder = instance.holder
    }
}

extension Loop where Kernel: ~Copyable {
    /// Bytes of frames behind HELLO that are kept until WELCOME: as many as the longest frame of a
    /// device. The connection is read from up to there, so that its end is noticed.
    static var earlyBytesMax: Int { Limits.deviceFrameBytesMax }

    /// NET-8: whether the connection, or an app on it, waits for its WELCOME. No frame is taken from it
    /// meanwhile, so that what follows HELLO is served in its order for every role.
    func isRegistering(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        if connection.pointee.phase == .registering { return true }
        guard !connection.pointee.isApp, let carriage = connection.pointee.carriage else {
            return false
        }
        return carriage.apps.contains { connections[Int($0.place)].phase == .registering }
    }

    /// Something of what is queued for this place has left. WELCOME is what is queued first.
    mutating func newcomerLeft(_ place: UInt32) {
        if !newcomers.isEmpty { newcomers[place] = nil }
    }

    /// This place's connection is gone.
    mutating func newcomerEnded(_ place: UInt32) {
        guard !newcomers.isEmpty, let newcomer = newcomers.removeValue(forKey: place) else {
            return
        }
        undo(newcomer)
    }

    /// Unregisters an instance that nobody knows the token of.
    mutating func undo(_ newcomer: Newcomer) {
        requests.append(
            Request(
                command: .unregister(
                    project: newcomer.project, ordinal: newcomer.ordinal,
                    holder: newcomer.holder),
                reply: .undoing(loop: context.number, newcomer)))
    }

    /// Undoes what the store could not undo a second ago.
    mutating func undoAgain() {
        guard !notUndone.isEmpty else { return }
        var again: [Newcomer] = []
        swap(&again, &notUndone)
        for newcomer in again { undo(newcomer) }
    }
}
