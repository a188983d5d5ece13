// SPDX-License-Identifier: Apache-2.0
//
// Devices by their tokens, and groups of devices (REG-3, GRP-1 to GRP-4). Rests on the embedding API.

import Martlet
import MartletAnswers
import MartletGateway

/// A device as the console shows it. Instants are milliseconds since 1970.
struct DeviceAnswer: Encodable {
    struct Connection: Encodable {
        var since: Int64
        var address: String
        var loop: Int
        /// `active`, `background` or `doze`.
        var state: String
        var queuedBytes: Int
    }

    struct Limit: Encodable {
        var limit: String
        var left: UInt64
        var of: UInt64
    }

    struct Waiting: Encodable {
        var messageID: String?
        var accepted: Int64
        var expires: Int64
        /// `normal` or `high`.
        var priority: String
        var collapsible: Bool
        var why: String
    }

    /// Limits that an answer may have, and reasons for which a message waits.
    static let limits = DeviceDetails.Allowance.Kind.allCases.map(\.rawValue)
    static let reasons = DeviceDetails.Reason.allCases.map(\.rawValue)

    var token: String
    var app: String
    var platform: String
    var registered: Int64
    /// nil: the device is not connected.
    var connection: Connection?
    var seen: Int64
    /// nil: collapsible messages are not throttled.
    var throttledUntil: Int64?
    /// Discarded messages that the device was not told of yet.
    var discarded: UInt64
    var limits: [Limit]
    var topics: [String]
    var groups: [String]
    /// The oldest messages that wait, at most 100.
    var waiting: [Waiting]
    var hasMore: Bool

    init(_ device: DeviceDetails, of project: String, topics: [String]) {
        token = device.token
        app = device.app
        platform = device.platform.name
        registered = device.registered.millisecondsSince1970
        connection = device.connection.map {
            Connection(
                since: $0.since.millisecondsSince1970, address: $0.address, loop: $0.loop,
                state: $0.state.word, queuedBytes: $0.queuedBytes)
        }
        seen = device.seen.millisecondsSince1970
        throttledUntil = device.throttledUntil?.millisecondsSince1970
        discarded = device.discardedCount
        limits = device.allowances.map {
            Limit(limit: $0.kind.rawValue, left: $0.left, of: $0.limit)
        }
        self.topics = topics
        groups = device.groups
        waiting = device.waiting.map {
            Waiting(
                messageID: $0.number.map { MessageID.text($0, projectID: project) },
                accepted: $0.accepted.millisecondsSince1970,
                expires: $0.expires.millisecondsSince1970,
                priority: $0.priority == .high ? "high" : "normal", collapsible: $0.isCollapsible,
                why: $0.reason.rawValue)
        }
        hasMore = device.hasMore
    }
}

extension DeviceState {
    fileprivate var word: String {
        switch self {
        case .active: "active"
        case .background: "background"
        case .doze: "doze"
        }
    }
}

extension ConsoleRoute {
    static let devices = [
        ConsoleRoute(
            "devices.show", .get, "projects/{project}/devices/{token}", .role(.viewer),
            "Look a device up: app, connection, limits, topics, groups, and what waits for it and why.",
            answer: "The device.",
            schema: .device
        ) { call in
            let device = try await call.broker.device(call["token"], in: call.project)
            var topics: [String] = []
            var after: String? = ""
            while let start = after {
                let page = try call.broker.topics(
                    of: call["token"], in: call.project, after: start)
                topics += page.entries.map(\.name)
                after = page.next
            }
            return .json(DeviceAnswer(device, of: call.project, topics: topics))
        },
        ConsoleRoute(
            "devices.unregister", .delete, "projects/{project}/devices/{token}",
            .role(.administrator), "Unregister a device for good.", answer: "An empty object.",
            schema: .nothing
        ) { call in
            try await call.broker.unregister(call["token"], in: call.project)
            try await call.note("device.unregister", call["token"], in: call.project)
            return .done
        },
    ]

    static let groups = [
        ConsoleRoute(
            "groups.list", .get, "projects/{project}/groups", .role(.viewer), "List the groups.",
            query: paged,
            answer: "A page of groups, each as `martlet group list --json` prints it.",
            schema: .page(.groupEntry)
        ) { call in
            let page = try call.broker.groups(
                in: call.project, after: call.after, limit: try call.limit)
            return .json(PageAnswer(page) { GroupEntryAnswer($0) })
        },
        ConsoleRoute(
            "groups.create", .post, "projects/{project}/groups", .role(.sender),
            "Create a group.",
            body: [
                Field("name", .string, isRequired: true, "Name of the group."),
                Field("tokens", .strings, isRequired: true, "Tokens of 1 to 20 members."),
            ], answer: "As `martlet group create --json` prints it.",
            schema: .group
        ) { call in
            var call = call
            let name = try call.text("name")
            let tokens = try call.texts("tokens")
            try call.finish()
            let group = try await call.broker.createGroup(
                named: name, tokens: tokens, in: call.project)
            try await call.note("group.create", name, in: call.project)
            return .json(GroupAnswer(group))
        },
        ConsoleRoute(
            "groups.show", .get, "projects/{project}/groups/{group}", .role(.viewer),
            "Show a group with its members.", answer: "As `martlet group show --json` prints it.",
            schema: .group
        ) { call in
            .json(GroupAnswer(try call.broker.group(named: call["group"], in: call.project)))
        },
        ConsoleRoute(
            "groups.remove", .delete, "projects/{project}/groups/{group}", .role(.sender),
            "Remove members from a group. A group without members ends.",
            body: [
                Field("key", .string, isRequired: true, "Notification key of the group."),
                Field("tokens", .strings, isRequired: true, "Tokens of the members."),
            ], answer: "As `martlet group remove --json` prints it.",
            schema: .group
        ) { call in
            var call = call
            let key = try call.text("key")
            let tokens = try call.texts("tokens")
            try call.finish()
            let group = try await call.broker.removeFromGroup(
                named: call["group"], key: key, tokens: tokens, in: call.project)
            try await call.note(
                "group.remove", "\(call["group"]), \(tokens.count) members", in: call.project)
            return .json(GroupAnswer(group))
        },
    ]
}
