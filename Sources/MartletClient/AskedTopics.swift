// SPDX-License-Identifier: Apache-2.0
//
// The application's wishes about topics (DEV-2), as the application keeps them. The application hands its wishes back
// at the next start, so the broker hears of them again. Rests on MartletBase.

import MartletBase

/// The application's wishes about topics that still hold. An application keeps them with the credentials.
public struct AskedTopics: Sendable, Hashable, Codable {
    /// Topics to be subscribed to, sorted.
    public var subscriptions: [String]
    /// Topics to be unsubscribed from, sorted. A topic leaves the list when the broker answers.
    public var unsubscriptions: [String]

    /// Restores wishes kept by the application. Without arguments: no wishes, as on a first run.
    public init(subscriptions: [String] = [], unsubscriptions: [String] = []) {
        self.subscriptions = subscriptions
        self.unsubscriptions = unsubscriptions
    }
}

/// DEV-2: a wish of an earlier run that the broker refuses for good. Another attempt cannot help.
public struct TopicRefusal: Sendable, Hashable {
    /// Name of the topic.
    public var topic: String
    /// The refused wish: to be subscribed or unsubscribed.
    public var operation: TopicOperation
    /// The broker's refusal. Another attempt gets an equal refusal.
    public var error: MartletError
}
