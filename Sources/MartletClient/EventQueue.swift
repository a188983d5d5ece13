// SPDX-License-Identifier: Apache-2.0
//
// A first-in, first-out queue. Most removals do not move the remaining events. Pure.

/// Events on their way to the application.
struct EventQueue: Sendable {
    private var events: [DeviceEvent] = []
    private var head = 0

    var count: Int { events.count - head }
    var isEmpty: Bool { head == events.count }

    mutating func append(_ event: DeviceEvent) { events.append(event) }

    mutating func popFirst() -> DeviceEvent? {
        guard head < events.count else { return nil }
        let event = events[head]
        head += 1
        if head == events.count {
            events = []
            head = 0
        } else if head >= 64 && head * 2 >= events.count {
            events.removeFirst(head)
            head = 0
        }
        return event
    }
}
