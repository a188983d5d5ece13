// SPDX-License-Identifier: Apache-2.0
//
// Sessions of the door to push services (GW-11): they get messages as others do, count as no connection, and hand over what
// they acknowledge. Rests on Delivery.

import MartletBase
import MartletBits
import MartletDelivery
import MartletEngine
import MartletRows
import Testing

@Suite("Sessions of the door to push services")
struct BridgeSessionTests {
    private let project = ProjectNumber(0)
    private let now = Instant(millisecondsSince1970: 0)

    private func attachment(
        _ ordinal: UInt32, number: UInt64, isBridge: Bool
    ) -> MartletDelivery.Attachment {
        let mailbox = MailboxState(
            acknowledged: LaneMarks(.none), awayFrom: .none, throttleFull: now, seen: now)
        return Attachment(
            owner: MailboxOwner(
                project: project, ordinal: Ordinal(ordinal), platform: .apple,
                appKey: CollapseDigest(rawValue: 1)),
            holder: Holder(keyDigest: SecretDigest(bytes: [UInt8](repeating: 1, count: 32))),
            mailbox: mailbox, position: .none, connectionNumber: number, isBridge: isBridge)
    }

    @Test("GW-11 an audience and a load count connections, and no session of the door")
    func counting() {
        var delivery = Delivery(capacity: 4)
        for index in 0..<4 as Range<UInt32> { delivery.open(index) }
        _ = delivery.attach(0, attachment(1, number: 101, isBridge: false), now: now)
        _ = delivery.attach(1, attachment(2, number: 1, isBridge: true), now: now)
        _ = delivery.attach(2, attachment(3, number: 2, isBridge: true), now: now)
        let all = RecipientSet.of([Ordinal(1), Ordinal(2), Ordinal(3)])
        func connected() -> [UInt32] {
            let found = delivery.connected(among: all, of: project)
            return (1...3).filter { found.view.contains(Ordinal($0)) }
        }
        func counted() -> Int { delivery.projectLoads[0].connectionCount }
        #expect(connected() == [1] && counted() == 1)
        // The device of ordinal 2 connects: its connection takes the place of the door's session.
        let replaced = delivery.attach(3, attachment(2, number: 102, isBridge: false), now: now)
        #expect(replaced == 1)
        #expect(connected() == [1, 2] && counted() == 2)
        delivery.close(1, now: now)
        #expect(connected() == [1, 2] && counted() == 2)
        delivery.detach(2, now: now)
        delivery.detach(3, now: now)
        #expect(connected() == [1] && counted() == 1)
        #expect(delivery.projectLoads[0].connectedTotal == 2)
    }

    @Test("REP-1 what a session of the door acknowledges is handed over", arguments: [true, false])
    func acknowledging(isBridge: Bool) {
        var delivery = Delivery(capacity: 1)
        delivery.open(0)
        _ = delivery.attach(0, attachment(1, number: 1, isBridge: isBridge), now: now)
        delivery.close(0, now: now)
        let taken = delivery.takeAcknowledgements()
        #expect(taken.map(\.isHandedOver) == [isBridge])
    }
}
