// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a project, and of a new project with its registration key. Property names are the names in the JSON
// output. Pure.

package import Martlet

package struct ProjectAnswer: Encodable {
    package var project: String
    package var senderID: UInt64
    package var conditionTopicsMax: Int
    package var instances: UInt64
    package var topics: UInt64
    package var weight: Int
    /// `defer` or `refuse`.
    package var onOverload: String
    /// REG-7: `key`, `ticket` or `open`.
    package var registration: String
    /// TOP-10: `all`, `none`, or prefixes with a comma between them.
    package var deviceTopics: String
    /// OPS-2: the limits in force, by their names; nil for a new project.
    package var limits: [String: LimitAnswer]?
    /// REG-7: lets devices register. Only the answer about a new project has it.
    package var registrationKey: String?

    package struct LimitAnswer: Encodable {
        package var value: Int
        /// True for the project's own value, false for the broker's.
        package var own: Bool
    }

    /// The project's own limits for people: `none`, or `name=value` with a comma between them.
    package var ownLimits: String {
        let own = (limits ?? [:]).filter(\.value.own).sorted { $0.key < $1.key }
        return own.isEmpty
            ? "none" : own.map { "\($0.key)=\($0.value.value)" }.joined(separator: ", ")
    }

    package init(
        _ project: ProjectSummary, _ policies: ProjectPolicies, _ limits: [ProjectLimitSummary]
    ) {
        self.limits = Dictionary(
            uniqueKeysWithValues: limits.map {
                ($0.limit.name, LimitAnswer(value: $0.value, own: $0.isOwn))
            })
        self.project = project.id
        senderID = project.senderID
        conditionTopicsMax = project.conditionTopicsMax
        instances = project.instanceCount
        topics = project.topicCount
        weight = project.weight
        onOverload =
            switch project.overload {
            case .defer: "defer"
            case .refuse: "refuse"
            }
        registration = policies.registration.name
        deviceTopics = policies.topics.text
    }

    package init(_ new: NewProject) {
        self.init(new.summary, ProjectPolicies(), [])
        limits = nil
        registrationKey = new.registrationKey
    }
}
