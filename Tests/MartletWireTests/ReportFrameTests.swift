// SPDX-License-Identifier: Apache-2.0
//
// The frames of reports as the vectors have them, their sums, and the days that they use (REP-1, REP-2).

import Foundation
import MartletBase
import MartletWire
import Testing

private func counts(_ values: UInt64...) -> DeliveryCounts {
    var counts = DeliveryCounts()
    let values = values + [0, 0]
    counts.targeted = values[0]
    counts.sent = values[1]
    counts.displayed = values[2]
    counts.opened = values[3]
    counts.acknowledged = values[4]
    counts.collapsed = values[5]
    counts.expired = values[6]
    counts.rateLimited = values[7]
    counts.discardedTooMany = values[8]
    counts.discardedInactive = values[9]
    counts.unregistered = values[10]
    counts.cancelled = values[11]
    counts.nowOrNever = values[12]
    counts.handedOver = values[13]
    counts.refused = values[14]
    return counts
}

private let millions = counts(
    10_000_000, 9_500_000, 700_000, 120_000, 8_700_000, 200_000, 100_000, 40_000, 30_000, 20_000,
    5_000, 4_000, 1_000, 299_999, 1)

/// Vectors of what senders ask about messages that were sent, by file name.
let reportVectors: [String: AnyFrame] = [
    "send-not-received": .client(
        .send(
            SendRequest(
                correlation: 43, target: .topic("storm"),
                message: try! Message(data: ["cm": "412"]).encoded(), priority: .high,
                notReceived: 42,
                options: MessageOptions(wantsReceipts: true)))),
    "report": .client(.request(ReportRequest(correlation: 40, messageNumber: 42))),
    "report-result": .broker(
        .answer(
            ReportResult(
                correlation: 40, messageNumber: 42,
                accepted: Instant(millisecondsSince1970: 1_760_000_000_000), unsettledCount: 3,
                counts: millions,
                refusals: [RefusalCount(kind: .apns, reason: "PayloadTooLarge", count: 1)]))),
    "list-days": .client(
        .request(
            ListDaysRequest(
                correlation: 41, first: Day(20_369), last: Day(20_370), cursor: "20370.1",
                limit: 2))),
    "day-page": .broker(
        .answer(
            DayPage(
                correlation: 41, nextCursor: "20370.3",
                entries: [
                    DailyCounts(
                        day: Day(20_370), app: "com.example.tides", platform: .android,
                        counts: counts(12, 9, 3, 1, 8, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0)),
                    DailyCounts(
                        day: Day(20_370), app: "com.example.web", platform: .web,
                        counts: counts(2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0)),
                ]))),
    "list-not-received": .client(
        .request(
            ListNotReceivedRequest(correlation: 42, messageNumber: 42, cursor: "", limit: 1000))),
]

@Suite struct ReportFrameTests {
    @Test("REP-1 all eleven outcomes and what is pending add up to what was targeted")
    func sums() {
        #expect(millions.outcomes == 9_400_000 && millions.pending == 600_000)
        #expect(millions.discarded == 50_000)
        #expect(DeliveryCounts().pending == 0)
        var twice = millions
        twice += millions
        #expect(twice.targeted == 20_000_000 && twice.nowOrNever == 2_000)
        #expect(twice.outcomes + twice.pending == twice.targeted)
        // Whatever a broker says, nothing traps.
        #expect(counts(1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0).pending == 0)
        #expect(counts(1, 0, 0, 0, .max, .max, 0, 0, 0, 0, 0, 0, 0).pending == 0)
    }

    @Test("REP-1 days are told as the calendar has them")
    func days() {
        #expect(Day(0).description == "1970-01-01")
        #expect(Day(of: Instant(millisecondsSince1970: -1)) == Day(0))
        #expect(Day(of: Instant(millisecondsSince1970: 86_399_999)) == Day(0))
        #expect(Day(of: Instant(millisecondsSince1970: 86_400_000)) == Day(1))
        #expect(Day(3).before(2) == Day(1) && Day(3).before(5) == Day(0))
        // Over 400 years and their leap days, beside another calendar.
        for day in stride(from: UInt32(0), to: 150_000, by: 1) {
            let date = Date(timeIntervalSince1970: Double(day) * 86_400)
            let text = date.formatted(.iso8601.year().month().day())
            guard Day(day).description != text else { continue }
            Issue.record("day \(day) is \(text), not \(Day(day))")
        }
    }

    @Test(
        "REP-2 the ID of an earlier message, or its number; anything else is refused by its field")
    func notReceived() throws {
        func request(_ text: String?) throws -> SendRequest {
            try OutgoingMessage(to: .topic("a"), Message(), notReceived: text).request(
                correlation: 1, message: [], projectID: "tides")
        }
        #expect(try request(nil).notReceived == nil)
        #expect(try request("42").notReceived == 42)
        #expect(try request("projects/tides/messages/42").notReceived == 42)
        for text in [
            "", "0", "-1", "+1", "x", "projects/other/messages/42", "projects/tides/messages/",
            "9223372036854775808", "99999999999999999999",
        ] {
            let error = #expect(throws: MartletError.self, "\(text)") { try request(text) }
            #expect(error?.word == .invalidArgument && error?.field == "not_received")
            #expect(error?.message.contains("projects/tides/messages/NUMBER") == true)
        }
    }
}
