// SPDX-License-Identifier: Apache-2.0
//
// The pure parts of the door to push services: answers of Apple, and the messages of an instance in the
// door, beside a naive model. Rests on MartletBridge.

import Martlet
import MartletBridge
import MartletWire
import Testing

@Suite("Answers of Apple's push service")
struct AnswerTests {
    @Test(
        "GW-11 each answer has its meaning",
        arguments: [
            (200, "", HandOverAnswer.taken),
            (400, "BadDeviceToken", .gone(reason: "BadDeviceToken")),
            (410, "Unregistered", .gone(reason: "Unregistered")),
            (410, "", .gone(reason: "status 410")),
            (400, "DeviceTokenNotForTopic", .refused(reason: "DeviceTokenNotForTopic")),
            (413, "PayloadTooLarge", .refused(reason: "PayloadTooLarge")),
            (404, "BadPath", .refused(reason: "BadPath")),
            (301, "", .refused(reason: "status 301")),
            (403, "InvalidProviderToken", .keyRefused(reason: "InvalidProviderToken")),
            (403, "", .keyRefused(reason: "status 403")),
            (429, "TooManyRequests", .laterForInstance(reason: "TooManyRequests", afterSeconds: 7)),
            (
                429, "TooManyProviderTokenUpdates",
                .later(reason: "TooManyProviderTokenUpdates", afterSeconds: 7)
            ),
            (500, "InternalServerError", .later(reason: "InternalServerError", afterSeconds: 7)),
            (503, "Shutdown", .later(reason: "Shutdown", afterSeconds: 7)),
        ])
    func verdict(status: Int, reason: String, expected: HandOverAnswer) {
        let body = reason.isEmpty ? "" : #"{"reason":"\#(reason)"}"#
        let answer = APNsAnswer(
            status: status, body: Array(body.utf8), retryAfter: status < 429 ? nil : "7")
        #expect(answer.verdict == expected)
    }

    @Test(
        "GW-11 a body that is no answer of Apple's gives no reason",
        arguments: [
            "", "{", "[]", #"{"reason":7}"#, #"{"reason":""}"#, #"{"reason":"a b"}"#,
            #"{"reason":"a\nb"}"#, #"{"reason":"\#(String(repeating: "a", count: 65))"}"#,
        ])
    func noReason(body: String) {
        let answer = APNsAnswer(status: 400, body: Array(body.utf8), retryAfter: nil)
        #expect(answer.verdict == .refused(reason: "status 400"))
    }
}

@Suite("Messages of an instance in the door")
struct TakenMessagesTests {
    @Test("TTL-4 GW-11 GW-13 a message that comes after a higher stream ID is acknowledged singly")
    func late() {
        var taken = TakenMessages(endedMax: 8)
        // Message 5 was held back by the doze or the throttle.
        for streamID: UInt64 in [10, 5] { #expect(taken.came(streamID) == .handOver) }
        #expect(taken.end(10) == Acknowledge(through: 10))
        #expect(taken.end(5) == Acknowledge(through: 0, streamIDs: [5]))
        // A later message in order covers a late one before it.
        for streamID: UInt64 in [12, 7, 14, 9] { #expect(taken.came(streamID) == .handOver) }
        #expect(taken.end(14) == Acknowledge(through: 0, streamIDs: [14]))
        #expect(taken.end(9) == Acknowledge(through: 0, streamIDs: [9]))
        #expect(taken.end(12) == Acknowledge(through: 12))
        #expect(taken.end(7) == Acknowledge(through: 14))
        // An open late message keeps the cumulative acknowledgement back.
        for streamID: UInt64 in [20, 16, 21] { #expect(taken.came(streamID) == .handOver) }
        #expect(taken.end(20) == Acknowledge(through: 20))
        #expect(taken.end(21) == Acknowledge(through: 0, streamIDs: [21]))
        // On a new attachment the messages come in order again, and none is late.
        #expect(taken.reattach() == [10, 5, 14, 9, 12, 7, 20, 21])
        #expect(taken.came(16) == .wait)
        #expect(taken.came(21) == .acknowledge(Acknowledge(through: 0, streamIDs: [21])))
        #expect(taken.end(16) == Acknowledge(through: 21))
    }

    /// The broker gives messages on attachments, a push service ends them in any order, and acknowledgements reach the
    /// disk or are lost with the attachment.
    @Test(
        "GW-11 each message is handed over once and acknowledged until that is on disk",
        arguments: 0..<200)
    func histories(seed: UInt64) {
        var random = SeededGenerator(seed: seed &* 7919 &+ 1)
        var taken = TakenMessages(endedMax: 1024)
        /// What a broker knows: messages that wait, and what it gave on the present attachment.
        var waiting: [UInt64] = []
        var given: [UInt64] = []
        /// Messages that a throttle holds back: they come late.
        var heldBack: [UInt64] = []
        var handedOver: [UInt64: Int] = [:]
        var open: [UInt64] = []
        var next: UInt64 = 1
        func acknowledge(_ frame: Acknowledge) {
            // Acknowledgements name what was given on this attachment.
            for one in frame.streamIDs + (frame.through > 0 ? [frame.through] : []) {
                #expect(given.contains(one))
            }
            // What came before the named message with a lower stream ID, and the message itself.
            let named = given.firstIndex(of: frame.through).map { given[...$0] } ?? []
            let ended = Set(named.filter { $0 <= frame.through } + frame.streamIDs)
            #expect(ended.isDisjoint(with: open), "a message was acknowledged before its end")
            waiting.removeAll { ended.contains($0) }
        }
        func give(_ message: UInt64) {
            given.append(message)
            switch taken.came(message) {
            case .handOver:
                handedOver[message, default: 0] += 1
                open.append(message)
            case .wait: #expect(open.contains(message))
            case .acknowledge(let frame): acknowledge(frame)
            }
        }
        for _ in 0..<300 {
            switch random.next() % 10 {
            case 0..<3:
                waiting.append(next)
                if random.next() % 4 == 0 { heldBack.append(next) } else { give(next) }
                next += 1
            case 3 where !heldBack.isEmpty:
                give(heldBack.remove(at: Int(random.next() % UInt64(heldBack.count))))
            case 4..<9 where !open.isEmpty:
                let message = open.remove(at: Int(random.next() % UInt64(open.count)))
                if let frame = taken.end(message) { acknowledge(frame) }
            case 9:
                // A new attachment: HELLO acknowledges what it lists, then the mailbox comes again.
                let listed = Set(taken.reattach())
                #expect(listed.isDisjoint(with: open))
                waiting.removeAll { listed.contains($0) }
                given = []
                heldBack = []
                for message in waiting { give(message) }
            default: break
            }
        }
        for message in heldBack { give(message) }
        for message in open {
            if let frame = taken.end(message) {
                open.removeAll { $0 == message }
                acknowledge(frame)
            } else {
                open.removeAll { $0 == message }
            }
        }
        let listed = Set(taken.reattach())
        waiting.removeAll { listed.contains($0) }
        #expect(waiting.isEmpty)
        #expect(handedOver.values.allSatisfy { $0 == 1 } && handedOver.count == Int(next - 1))
    }
}

@Suite("Messages that keep failing")
struct FailingMessagesTests {
    private let first = FailingMessages.Name(.apns, 1)
    private let second = FailingMessages.Name(.apns, 2)

    private func fail(
        _ name: FailingMessages.Name, _ times: Int, _ failing: inout FailingMessages
    ) {
        for _ in 0..<times { failing.failed(name) }
    }

    @Test("GW-17 one message that keeps failing is set aside, and is not the service's fault")
    func one() {
        var failing = FailingMessages()
        fail(first, BridgeLimits.failuresPerRest - 1, &failing)
        #expect(!failing.isAside(first) && !failing.areOfService(.apns))
        failing.failed(first)
        #expect(failing.isAside(first) && !failing.areOfService(.apns))
        // A second one beside it is set aside too.
        fail(second, BridgeLimits.failuresPerRest - 1, &failing)
        #expect(!failing.isAside(second) && !failing.areOfService(.apns))
        failing.failed(second)
        #expect(failing.isAside(second) && failing.isAside(first))
        // One delivery at a time is tried, after rests that are counted.
        #expect(failing.beginRest(first) == 0 && failing.beginRest(first) == nil)
        failing.endRest(first)
        #expect(failing.beginRest(first) == 1)
        // Any answer about one lets all of this message go on, and no other.
        #expect(failing.answered(first) && !failing.isAside(first) && failing.isAside(second))
        #expect(failing.beginRest(first) == nil && !failing.answered(first))
    }

    @Test("GW-17 several messages that fail without an answer between are the service's failure")
    func several() {
        var failing = FailingMessages()
        failing.failed(first)
        failing.failed(.init(.webPush, 2))
        #expect(!failing.areOfService(.apns) && !failing.areOfService(.webPush))
        failing.failed(second)
        #expect(failing.areOfService(.apns) && !failing.areOfService(.webPush))
        let wasAside = failing.answered(.init(.apns, 3))
        #expect(!wasAside && !failing.areOfService(.apns))
        failing.forget()
        #expect(!failing.isAside(first))
    }
}
