// SPDX-License-Identifier: Apache-2.0
//
// Counts by the address of a peer (NET-6, REG-8, REG-10), in a table of fixed size: strangers choose their addresses,
// so a table that grows would be theirs to fill. An address belongs to a set of eight places. A new address takes the
// place of the address that matters least: an address without connections before an address with connections, and the
// longest unused before others. A lost address loses its counts. So a stranger with very many addresses gets more than
// a stranger with one address, and the bounds over all addresses still hold. Rests on PeerAddress.

package import MartletBase
import MartletBits

/// The counts of an address.
package struct AddressCounts {
    /// All zero: the place is free.
    package var network = PeerAddress(high: 0, low: 0)
    /// Connections without WELCOME.
    package var handshakes: UInt32 = 0
    /// Bytes held of connections without WELCOME.
    package var bytes: UInt32 = 0
    /// REG-8: when all registrations so far are paid for, in microseconds of the monotonic clock.
    var registrationsPaid: Int64 = 0
    /// REG-10: beginning of the minute of `refusals`, in milliseconds of the monotonic clock.
    var refusalsSince: Int64 = 0
    /// REG-10: refused credentials of the minute.
    var refusals: UInt32 = 0
    /// REG-10: refusals that are held back now.
    package var held: UInt32 = 0
    /// Time of the last look, in milliseconds of the monotonic clock.
    package var used: Int64 = 0

    var isConnected: Bool { handshakes > 0 || bytes > 0 || held > 0 }
    var isFree: Bool { used == 0 }
}

/// The table of addresses.
package struct AddressTable: ~Copyable {
    private static let setsMax = 1024
    private static let places = 8
    /// Addresses that the table holds: 8192, in 576 KiB of memory at most.
    package static var addressesMax: Int { setsMax * places }

    private let table = ZeroedTable<AddressCounts>(capacity: AddressTable.addressesMax)

    package init() {}

    /// Finds or makes the counts of an address.
    /// - Parameter now: milliseconds of the monotonic clock.
    package func counts(of network: PeerAddress, now: Int64) -> UnsafeMutablePointer<AddressCounts>
    {
        let set = firstPlace(of: network)
        var least = set
        for place in set..<(set + Self.places) {
            if !place.pointee.isFree, place.pointee.network == network {
                place.pointee.used = max(now, 1)
                return place
            }
            if Self.matters(least, more: place) { least = place }
        }
        least.pointee = AddressCounts()
        least.pointee.network = network
        least.pointee.used = max(now, 1)
        return least
    }

    /// The counts of an address; nil: the table does not have the address.
    package func known(_ network: PeerAddress) -> UnsafeMutablePointer<AddressCounts>? {
        let set = firstPlace(of: network)
        return (set..<(set + Self.places)).first {
            !$0.pointee.isFree && $0.pointee.network == network
        }
    }

    /// The address that holds most bytes; nil: no address holds bytes.
    package func largestHolder() -> AddressCounts? {
        var largest: UnsafeMutablePointer<AddressCounts>?
        for place in table.base..<(table.base + Self.addressesMax)
        where place.pointee.bytes > largest?.pointee.bytes ?? 0 {
            largest = place
        }
        return largest?.pointee
    }

    /// The hash has a seed of the process, so nobody can choose addresses of one set.
    private func firstPlace(of network: PeerAddress) -> UnsafeMutablePointer<AddressCounts> {
        var hasher = Hasher()
        hasher.combine(network)
        let set = Int(UInt(bitPattern: hasher.finalize()) % UInt(Self.setsMax))
        return table.base + set * Self.places
    }

    private static func matters(
        _ one: UnsafeMutablePointer<AddressCounts>, more other: UnsafeMutablePointer<AddressCounts>
    ) -> Bool {
        if one.pointee.isFree { return false }
        if other.pointee.isFree { return true }
        if one.pointee.isConnected != other.pointee.isConnected { return one.pointee.isConnected }
        return one.pointee.used > other.pointee.used
    }
}
