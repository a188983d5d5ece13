// SPDX-License-Identifier: Apache-2.0
//
// `deliveryData` (GW-7): daily figures about an Android app's messages. The percentages have FCM's names, and the exact
// counts stand beside them. What Martlet doesn't count is left out. Rests on Broker and GatewayCall+Pages.

import Martlet

extension Route {
    static let deliveryData = [
        Route(
            "deliveryData.list", .get,
            "v1beta1/projects/{project}/androidApps/{app}/deliveryData"
        ) { (call, gateway) in
            try DeliveryData.list(call, gateway)
        }
    ]
}

/// The resource for one app and one day.
package enum DeliveryData {
    private static let pageDefault = 1000
    private static let pageMax = 10_000

    fileprivate static func list(
        _ call: GatewayCall, _ gateway: Gateway
    ) throws -> GatewayAnswer {
        let size = try call.pageSize(default: pageDefault, max: pageMax)
        let start = try call.pageStart
        guard let day = start.isEmpty ? 0 : UInt32(start) else { throw GatewayError.badPageToken }
        // The extra report tells whether there is another page.
        let found = try gateway.broker.reports(
            ofApp: call["app"], on: .android, in: try call.identified.projectID, from: Day(day),
            limit: size + 1)
        guard let found else {
            throw GatewayError(
                .notFound,
                "The project has no Android app of this name; an app is named by its package name.")
        }
        var members = JSONObject()
        if !found.isEmpty {
            members["androidDeliveryData"] = .array(found.prefix(size).map(resource))
        }
        if found.count > size, let next = found.last {
            members["nextPageToken"] = GatewayCall.pageToken(String(next.day.rawValue))
        }
        return .json(.object(members))
    }

    private static func resource(_ report: DailyCounts) -> JSONValue {
        .object([
            "appId": .string(report.app), "date": date(report.day), "data": data(report.counts),
        ])
    }

    private static func date(_ day: Day) -> JSONValue {
        let numbers = day.description.split(separator: "-").compactMap { Int64($0) }
        let members = zip(["year", "month", "day"], numbers.map { JSONValue.integer($0) })
        return .object(JSONObject(members.map { ($0, $1) }))
    }

    /// Counts and percentages as JSON. The percentages refer to the accepted messages: the targeted count minus the
    /// rate-limited count. Without accepted messages there are no percentages.
    package static func data(_ counts: DeliveryCounts) -> JSONValue {
        let accepted = counts.targeted - min(counts.targeted, counts.rateLimited)
        var members: JSONObject = [
            "countMessagesAccepted": count(accepted),
            "martletCounts": .object(JSONObject(all(counts).map { ($0.key, count($0.value)) })),
        ]
        if accepted > 0 {
            members["messageOutcomePercents"] = .object(
                JSONObject(
                    outcomes(counts).map {
                        ($0.key, .number(JSONNumber(100 * Double($0.value) / Double(accepted))))
                    }))
        }
        return .object(members)
    }

    /// The counts that FCM has a name for.
    private static func outcomes(_ counts: DeliveryCounts) -> [String: UInt64] {
        [
            "delivered": counts.acknowledged,
            "pending": counts.pending,
            "collapsed": counts.collapsed,
            "droppedTooManyPendingMessages": counts.discardedTooMany,
            "droppedDeviceInactive": counts.discardedInactive,
            "droppedTtlExpired": counts.expired,
        ]
    }

    private static func all(_ counts: DeliveryCounts) -> [String: UInt64] {
        [
            "targeted": counts.targeted,
            "pending": counts.pending,
            "sent": counts.sent,
            "displayed": counts.displayed,
            "opened": counts.opened,
            "acknowledged": counts.acknowledged,
            "collapsed": counts.collapsed,
            "expired": counts.expired,
            "rateLimited": counts.rateLimited,
            "discardedTooMany": counts.discardedTooMany,
            "discardedInactive": counts.discardedInactive,
            "unregistered": counts.unregistered,
            "cancelled": counts.cancelled,
            "nowOrNever": counts.nowOrNever,
            "handedOver": counts.handedOver,
            "refused": counts.refused,
        ]
    }

    /// Writes a count as a string, as Google's APIs write all 64-bit numbers.
    private static func count(_ value: UInt64) -> JSONValue { .string(String(value)) }
}
