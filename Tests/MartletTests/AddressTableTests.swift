// SPDX-License-Identifier: Apache-2.0
//
// The counts by address, beside what each address was given (NET-6, REG-8, REG-10). Rests on AddressTable alone.

import Martlet
import MartletBase
import Testing

@Suite("Counts by address")
struct AddressTableTests {
    private func address(_ number: Int) -> PeerAddress { PeerAddress(v4: UInt32(number + 1)) }

    @Test("NET-6 an address that was never counted is unknown, and one that was keeps its counts")
    func keeping() {
        let table = AddressTable()
        #expect(table.known(address(1)) == nil)
        table.counts(of: address(1), now: 5).pointee.handshakes = 3
        table.counts(of: address(2), now: 6).pointee.handshakes = 4
        #expect(table.known(address(1))?.pointee.handshakes == 3)
        #expect(table.counts(of: address(2), now: 7).pointee.handshakes == 4)
        #expect(table.known(address(2))?.pointee.used == 7)
        #expect(table.known(address(3)) == nil)
    }

    @Test("NET-6 the first millisecond of the clock marks a place as used too")
    func beginning() {
        let table = AddressTable()
        table.counts(of: address(1), now: 0).pointee.bytes = 9
        #expect(table.known(address(1))?.pointee.bytes == 9)
    }

    @Test("NET-6 the table never has more addresses than its places, however many come")
    func bound() {
        let table = AddressTable()
        let count = 4 * AddressTable.addressesMax
        for number in 0..<count { _ = table.counts(of: address(number), now: Int64(number + 1)) }
        let known = (0..<count).count { table.known(address($0)) != nil }
        #expect(known <= AddressTable.addressesMax)
        // The hash spreads the addresses, so hardly a place stays free.
        #expect(known > AddressTable.addressesMax * 9 / 10)
    }

    @Test("NET-6 an address with connections, bytes or waiting refusals outlives idle ones")
    func importance() {
        let table = AddressTable()
        // Few enough that no set has only such addresses.
        let busy = 0..<(AddressTable.addressesMax / 64)
        for number in busy {
            let counts = table.counts(of: address(number), now: 1)
            switch number % 3 {
            case 0: counts.pointee.handshakes = 1
            case 1: counts.pointee.bytes = 1
            default: counts.pointee.held = 1
            }
        }
        for number in 10_000..<50_000 { _ = table.counts(of: address(number), now: Int64(number)) }
        #expect(busy.allSatisfy { table.known(address($0)) != nil })
    }

    @Test("NET-6 among idle addresses the longest unused is forgotten first")
    func age() {
        let table = AddressTable()
        for number in 0..<1000 { _ = table.counts(of: address(number), now: 1) }
        for number in 1000..<100_000 {
            // The first half is looked at again and again.
            if number % 100 == 0 {
                for kept in 0..<500 { _ = table.counts(of: address(kept), now: Int64(number)) }
            }
            _ = table.counts(of: address(number), now: Int64(number))
        }
        #expect((0..<500).count { table.known(address($0)) != nil } == 500)
        #expect((500..<1000).count { table.known(address($0)) != nil } == 0)
    }

    @Test("NET-6 a forgotten address comes back without counts")
    func forgetting() {
        let table = AddressTable()
        table.counts(of: address(0), now: 1).pointee.used = 1
        for number in 1..<100_000 { _ = table.counts(of: address(number), now: Int64(number)) }
        #expect(table.known(address(0)) == nil)
        let counts = table.counts(of: address(0), now: 100_000)
        #expect(counts.pointee.handshakes == 0 && counts.pointee.bytes == 0)
        #expect(counts.pointee.network == address(0))
    }

    @Test("NET-6 the largest holder of bytes is found, and nobody while nobody holds bytes")
    func largest() {
        let table = AddressTable()
        #expect(table.largestHolder()?.network == nil)
        for number in 0..<200 {
            table.counts(of: address(number), now: 1).pointee.bytes = UInt32(number * 7 % 200)
        }
        // 143 times 7 leaves 1 of 200, so 57 times 7 leaves 199.
        #expect(table.largestHolder()?.network == address(57))
    }
}
