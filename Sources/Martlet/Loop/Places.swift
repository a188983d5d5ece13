// SPDX-License-Identifier: Apache-2.0
//
// The places of a loop: each connection and each app has one, and a session of Delivery under the same number. The
// tables have their full length from the beginning, so a pointer to a connection is valid as long as its place is taken.

import MartletBits
import MartletTransport

/// The connections of a loop, by place. A taken place holds an initialised connection, and no place from `end` on is taken.
struct Places: ~Copyable {
    /// Places of connections with a socket. As many for apps on shared connections are behind them.
    let connectionsMax: Int
    private let connections: UnsafeMutablePointer<Connection>
    private let takenTable: ZeroedTable<Bool>
    /// GW-9: the beginning of each device's connection.
    private let originTable: ZeroedTable<DeviceOrigin>
    private var end: UInt32 = 0
    private var appPlaces: AppPlaces
    /// Places of apps after DETACHED. Some of the places may have been given back.
    var endedApps: [UInt32] = []
    /// Connections that the transport is closing, with places that are free soon.
    var closingCount = 0
    /// Connections and apps that came or went. The count wraps.
    private(set) var changed: UInt32 = 0

    init(connectionsMax: Int) {
        self.connectionsMax = connectionsMax
        let count = 2 * connectionsMax
        connections = .allocate(capacity: count)
        takenTable = ZeroedTable(capacity: count)
        originTable = ZeroedTable(capacity: count)
        appPlaces = AppPlaces(from: connectionsMax, to: count)
    }

    deinit {
        for place in taken { self[place].deinitialize(count: 1) }
        connections.deallocate()
    }

    /// The number of all places.
    var count: Int { takenTable.capacity }

    /// The connection of a taken place.
    subscript(place: UInt32) -> UnsafeMutablePointer<Connection> { connections + Int(place) }

    func isTaken(_ place: UInt32) -> Bool { takenTable.base[Int(place)] }

    /// The places that are taken when the walk reaches them. It ends at the place that is the highest now.
    var taken: some Sequence<UInt32> {
        let isTaken = takenTable.base
        return (0..<end).lazy.filter { isTaken[Int($0)] }
    }

    /// The beginning of the connection of a place's device. Places without a device hold zeros or former values.
    func origin(of place: UInt32) -> UnsafeMutablePointer<DeviceOrigin> {
        originTable.base + Int(place)
    }

    /// A free place for an app; nil: all are taken.
    mutating func forApp() -> ConnectionID? { appPlaces.take() }

    /// Puts a connection, or an app, in its place.
    mutating func take(_ connection: consuming Connection) -> UnsafeMutablePointer<Connection> {
        let place = connection.id.index
        precondition(
            Int(place) < (connection.isApp ? count : connectionsMax) && !isTaken(place),
            "A number is given out once.")
        self[place].initialize(to: connection)
        takenTable.base[Int(place)] = true
        changed &+= 1
        end = max(end, place + 1)
        return self[place]
    }

    /// Ends a connection, or an app, and frees its place.
    mutating func free(_ place: UInt32) {
        if self[place].pointee.isApp { appPlaces.giveBack(place) }
        self[place].deinitialize(count: 1)
        takenTable.base[Int(place)] = false
        changed &+= 1
        while end > 0, !isTaken(end - 1) { end -= 1 }
    }
}

/// Places for apps, numbered after the places of the transport's connections.
private struct AppPlaces {
    private var free: [UInt32] = []
    private var next: UInt32
    private let end: UInt32
    private var generation: UInt32 = 0

    init(from: Int, to: Int) {
        next = UInt32(from)
        end = UInt32(to)
    }

    mutating func take() -> ConnectionID? {
        let place: UInt32
        if let used = free.popLast() {
            place = used
        } else if next < end {
            place = next
            next += 1
        } else {
            return nil
        }
        generation &+= 1
        return ConnectionID(index: place, generation: generation)
    }

    mutating func giveBack(_ place: UInt32) { free.append(place) }
}
