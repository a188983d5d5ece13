// SPDX-License-Identifier: Apache-2.0
//
// The JSON of topics, of a condition's audience and of its explanation (TOP-9, CON-8, CON-9). Property names are the
// names in the JSON output. Pure.

package import Martlet

package struct TopicAnswer: Encodable {
    package var topic: String
    package var subscribers: UInt64

    package init(_ topic: TopicSummary) {
        self.topic = topic.name
        subscribers = topic.subscriberCount
    }
}

package struct AudienceAnswer: Encodable {
    package struct App: Encodable {
        package var app: String
        package var platform: String
        package var count: UInt64
    }

    package var condition: String
    package var total: UInt64
    package var android: UInt64
    package var apple: UInt64
    package var web: UInt64
    package var apps: [App]
    /// Selected instances with a connection; nil where the asked broker does not tell.
    package var connected: UInt64?

    package init(
        _ audience: AudienceSummary, of condition: String, connected: UInt64? = nil
    ) {
        self.connected = connected
        self.condition = condition
        total = audience.total
        android = audience.perPlatform[.android] ?? 0
        apple = audience.perPlatform[.apple] ?? 0
        web = audience.perPlatform[.web] ?? 0
        apps = audience.perApp.map {
            App(app: $0.app, platform: $0.platform.name, count: $0.count)
        }
    }
}

package struct ExplanationAnswer: Encodable {
    package struct Part: Encodable {
        package var depth: Int
        package var start: Int
        package var end: Int
        package var text: String
        package var count: UInt64
    }

    package struct Advice: Encodable {
        package var byteOffset: Int
        package var message: String
    }

    package var condition: String
    /// The condition with all parentheses that show how it is read.
    package var readAs: String
    package var parts: [Part]
    package var bytecode: [String]
    package var advice: [Advice]

    package init(_ explanation: ConditionExplanation, of condition: String) {
        self.condition = condition
        readAs = explanation.normalForm
        parts = explanation.parts.map {
            Part(
                depth: $0.depth, start: $0.byteRange.lowerBound, end: $0.byteRange.upperBound,
                text: condition.slice($0.byteRange), count: $0.count)
        }
        bytecode = explanation.bytecode
        advice = explanation.advice.map {
            Advice(byteOffset: Int($0.byteOffset), message: $0.message)
        }
    }
}

extension String {
    /// The bytes of a range of a condition, as text.
    fileprivate func slice(_ range: Range<Int>) -> String {
        let bytes = Array(utf8)
        return String(decoding: bytes[range.clamped(to: bytes.indices)], as: UTF8.self)
    }
}
