// SPDX-License-Identifier: Apache-2.0
//
// The state of a device between two runs of the application, and the state's JSON form. An application with storage
// of its own keeps the state there (`DeviceStateStore`); `DeviceStateFile` keeps the state in a file. Pure.

import MartletBase

/// The state with which the next run of an application continues as the same device.
public struct StoredDevice: Sendable, Hashable {
    /// Project ID, token and device key. The key is secret.
    public var credentials: DeviceCredentials
    /// The app's package name or bundle ID.
    public var appName: String
    /// Platform of the app.
    public var platform: Platform
    /// TTL-4: stream IDs of messages that the application has taken and that the broker may deliver again.
    public var unconfirmed: [UInt64]
    /// DEV-2: the application's wishes about topics.
    public var topics: AskedTopics

    /// Makes the state of a device; by default, a device that has taken no messages and has no wishes about topics.
    public init(
        credentials: DeviceCredentials, appName: String, platform: Platform,
        unconfirmed: [UInt64] = [], topics: AskedTopics = AskedTopics()
    ) {
        self.credentials = credentials
        self.appName = appName
        self.platform = platform
        self.unconfirmed = unconfirmed
        self.topics = topics
    }

    /// Reads the text of `json`. `unconfirmed` and `topics` may be missing.
    /// - Returns: nil if the text has another form.
    public init?(json text: String) {
        guard let json = try? JSONValue(parsing: text),
            let projectID = json["project"]?.string, let token = json["token"]?.string,
            let deviceKey = json["deviceKey"]?.string, let appName = json["app"]?.string,
            let platformName = json["platform"]?.string,
            let platform = Platform(name: platformName)
        else { return nil }
        var unconfirmed: [UInt64] = []
        for element in json["unconfirmed"]?.elements ?? [] {
            guard case .integer(let streamID) = element, streamID >= 0 else { return nil }
            unconfirmed.append(UInt64(streamID))
        }
        func topics(_ operation: String) -> [String] {
            json["topics"]?[operation]?.elements.compactMap(\.string) ?? []
        }
        self.init(
            credentials: DeviceCredentials(
                projectID: projectID, token: token, deviceKey: deviceKey),
            appName: appName, platform: platform, unconfirmed: unconfirmed,
            topics: AskedTopics(
                subscriptions: topics("subscriptions"), unsubscriptions: topics("unsubscriptions")))
    }

    /// The state as JSON on one line. The text contains the device key.
    public var json: String {
        func texts(_ texts: [String]) -> JSONValue { .array(texts.map { .string($0) }) }
        return JSONValue.object([
            "project": .string(credentials.projectID), "token": .string(credentials.token),
            "deviceKey": .string(credentials.deviceKey), "app": .string(appName),
            "platform": .string(platform.name),
            "unconfirmed": .array(unconfirmed.map { .integer(Int64(clamping: $0)) }),
            "topics": .object([
                "subscriptions": texts(topics.subscriptions),
                "unsubscriptions": texts(topics.unsubscriptions),
            ]),
        ]).text
    }
}

extension JSONValue {
    /// The elements of an array; empty for other values.
    fileprivate var elements: [JSONValue] {
        if case .array(let elements) = self { elements } else { [] }
    }
}
