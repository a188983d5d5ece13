// SPDX-License-Identifier: Apache-2.0
//
// First in, first out, without moving the rest at every step. Pure.

/// Messages that wait for the application.
struct MessageQueue: Sendable {
    private var messages: [IncomingMessage] = []
    private var head = 0

    var count: Int { messages.count - head }
    var isEmpty: Bool { head == messages.count }

    mutating func append(_ message: IncomingMessage) { messages.append(message) }

    mutating func popFirst() -> IncomingMessage? {
        guard head < messages.count else { return nil }
        let message = messages[head]
        head += 1
        if head == messages.count {
            messages = []
            head = 0
        } else if head >= 64 && head * 2 >= messages.count {
            messages.removeFirst(head)
            head = 0
        }
        return message
    }
}
