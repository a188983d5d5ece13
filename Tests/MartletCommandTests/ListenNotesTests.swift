// SPDX-License-Identifier: Apache-2.0
//
// What `martlet listen` says of notifications that collapsed or were throttled. Rests on MartletCommand.

import Martlet
import MartletCommand
import Testing

@Suite("Commands: notes of listen")
struct ListenNotesTests {
    private static let kept =
        "of the notifications that wait for a device only the newest is kept"

    private static func at(_ seconds: Double) -> Instant {
        Instant(millisecondsSince1970: 1_800_000_000_000 + Int64(seconds * 1000))
    }

    /// A message accepted at a second and arrived at another, on a connection that opened at the second 0.
    private static func arrival(
        _ streamID: UInt64, accepted: Double, arrived: Double, isCollapsible: Bool = true
    ) -> ListenNotes.Arrival {
        ListenNotes.Arrival(
            streamID: streamID, isCollapsible: isCollapsible, accepted: at(accepted),
            arrived: at(arrived), opened: at(0))
    }

    @Test("COL-1 a notification that waited beside others tells that only the newest is kept")
    func away() {
        var notes = ListenNotes(after: 4, isAwake: true)
        #expect(
            notes.note(on: Self.arrival(7, accepted: -60, arrived: 0.1))
                == "2 messages of the project before it did not come here: " + Self.kept)
        #expect(notes.note(on: Self.arrival(8, accepted: -50, arrived: 0.1)) == nil)
        #expect(
            notes.note(on: Self.arrival(10, accepted: -40, arrived: 0.1))
                == "1 message of the project before it did not come here: " + Self.kept)
    }

    @Test("COL-2 a message without a notification has no note, and counts in the project's order")
    func data() {
        var notes = ListenNotes(after: 0, isAwake: true)
        let data = Self.arrival(3, accepted: -60, arrived: 0.1, isCollapsible: false)
        #expect(notes.note(on: data) == nil)
        #expect(notes.note(on: Self.arrival(4, accepted: -50, arrived: 0.1)) == nil)
    }

    @Test("COL-4 the 20th notification says that further ones wait, and a late one that it did")
    func throttled() {
        var notes = ListenNotes(after: 0, isAwake: true)
        for streamID in 1...19 as ClosedRange<UInt64> {
            let second = Double(streamID)
            #expect(
                notes.note(on: Self.arrival(streamID, accepted: second, arrived: second)) == nil)
        }
        #expect(
            notes.note(on: Self.arrival(20, accepted: 20, arrived: 20))
                == "the last of 20 notifications at once: by default further ones wait, "
                + "and one comes every 3 minutes")
        #expect(
            notes.note(on: Self.arrival(23, accepted: 30, arrived: 181))
                == "held back for 151 s: by default a device gets 20 notifications at once, "
                + "then one every 3 minutes; "
                + "2 messages of the project before it did not come here: " + Self.kept)
    }

    @Test("COL-4 after an hour without notifications 20 come at once again")
    func refilled() {
        var notes = ListenNotes(after: 0, isAwake: true)
        let said = (1...40 as ClosedRange<UInt64>).map { streamID in
            let second = Double(streamID) + (streamID > 20 ? 3600 : 0)
            return notes.note(on: Self.arrival(streamID, accepted: second, arrived: second)) != nil
        }
        #expect(said.indices.filter { said[$0] } == [19, 39])
    }

    @Test("PRI-1 a dozing device is not said to be throttled")
    func dozing() {
        var notes = ListenNotes(after: 0, isAwake: false)
        #expect(notes.note(on: Self.arrival(1, accepted: 1, arrived: 90)) == nil)
    }
}
