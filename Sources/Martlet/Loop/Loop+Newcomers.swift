// SPDX-License-Identifier: Apache-2.0
//
// Registered instances that have not got their tokens yet. A token that no peer has read addresses nobody, and
// each `!( … )` condition would count the instance for ever. So a registration stays only if its WELCOME, which
// has the token, began to leave while the connection lasted. Otherwise the instance is unregistered again. The
// possible cases, in the order of time:
//
//   the connection ends before the registration is on disk      the outcome finds no connection
//   the connection ends before WELCOME is handed to the kernel  `Newcomers` still has the instance
//   the connection ends later                                   the instance stays: the token left
//
// Rests on Loop.

import MartletBase
import MartletEngine
import MartletRows
import MartletThreads

/// The instances whose tokens have not left. One whose connection has ended is unregistered, or waits for that.
struct Newcomers {
    /// Instances registered by this loop, by the connection's place.
    var byPlace: [UInt32: Newcomer] = [:]
    /// Instances that the store could not unregister.
    var notUndone: [Newcomer] = []
}

extension Loop where Kernel: ~Copyable {
    /// Bytes kept of frames behind HELLO until WELCOME: as many as the longest frame of a device. The
    /// connection is read from up to the bound, so the loop notices its end.
    static var earlyBytesMax: Int { Limits.deviceFrameBytesMax }

    /// NET-8: whether the connection, or an app on the connection, waits for its WELCOME. Until then the loop
    /// takes no frame, so frames behind HELLO are served in order for each role.
    func awaitsWelcome(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        if connection.pointee.phase == .awaitingWelcome { return true }
        guard !connection.pointee.isApp, let shared = connection.pointee.shared else {
            return false
        }
        return shared.apps.contains { places[$0.place].pointee.phase == .awaitingWelcome }
    }

    /// Notes the first bytes sent from a place's queue. WELCOME is the first frame of the queue, so the token
    /// has begun to leave.
    mutating func newcomerLeft(_ place: UInt32) {
        if !newcomers.byPlace.isEmpty { newcomers.byPlace[place] = nil }
    }

    /// Notes the end of a place's connection.
    mutating func newcomerEnded(_ place: UInt32) {
        guard !newcomers.byPlace.isEmpty,
            let newcomer = newcomers.byPlace.removeValue(forKey: place)
        else { return }
        undo(newcomer)
    }

    /// Unregisters an instance whose token has not left.
    mutating func undo(_ newcomer: Newcomer) {
        handOver.append(
            .unregister(
                project: newcomer.project, ordinal: newcomer.ordinal, holder: newcomer.holder),
            .undoing(loop: context.number, newcomer))
    }

    /// Retries the undoing of registrations after the store has failed. Called once a second.
    mutating func undoAgain() {
        guard !newcomers.notUndone.isEmpty else { return }
        var again: [Newcomer] = []
        swap(&again, &newcomers.notUndone)
        for newcomer in again { undo(newcomer) }
    }
}
