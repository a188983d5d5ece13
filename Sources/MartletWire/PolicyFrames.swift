// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about a project's rules for its devices (REG-7, TOP-10), with their frames and the
// answer. Rests on `WireReader`, `WireWriter` and `AdministratorInterface`.

public import MartletBase

/// FIND_POLICIES (0xAD): asks for the rules of a project. Answered by POLICIES.
public struct FindPoliciesRequest: WireRequest {
    package typealias Answer = PoliciesResult

    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32 = 0, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package static var type: FrameType { .findPolicies }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// POLICIES (0xAE): the answer to FIND_POLICIES.
public struct PoliciesResult: WireAnswer {
    public var correlation: UInt32
    public var policies: ProjectPolicies

    public init(correlation: UInt32 = 0, policies: ProjectPolicies) {
        self.correlation = correlation
        self.policies = policies
    }

    package static var type: FrameType { .policies }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        let registration: RegistrationPolicy = try reader.choice("registration policy")
        guard let topics = try reader.topicPolicy() else {
            throw .unknownValue(field: "topic policy", value: 0)
        }
        policies = ProjectPolicies(registration: registration, topics: topics)
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u8(policies.registration.rawValue)
        writer.topicPolicy(policies.topics)
    }
}

/// CHANGE_POLICIES (0xAF): changes the rules of a project. Answered by DONE.
public struct ChangePoliciesRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    /// REG-7: the new policy; nil leaves the policy unchanged. 0 on the wire means nil.
    public var registration: RegistrationPolicy?
    /// TOP-10: the new policy; nil leaves the policy unchanged. 0 on the wire means nil.
    public var topics: TopicPolicy?

    public init(
        correlation: UInt32 = 0, projectID: String, registration: RegistrationPolicy? = nil,
        topics: TopicPolicy? = nil
    ) {
        self.correlation = correlation
        self.projectID = projectID
        self.registration = registration
        self.topics = topics
    }

    package static var type: FrameType { .changePolicies }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        let policy = try reader.u8()
        registration = RegistrationPolicy(rawValue: policy)
        guard registration != nil || policy == 0 else {
            throw .unknownValue(field: "registration policy", value: UInt64(policy))
        }
        topics = try reader.topicPolicy()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.u8(registration?.rawValue ?? 0)
        writer.topicPolicy(topics)
    }
}

/// The number of a topic policy on the wire. The prefixes follow the number; for all numbers but `prefixes` the list
/// is empty.
private enum TopicPolicyNumber: UInt8 {
    case unchanged = 0
    case all = 1
    case noTopics = 2
    case prefixes = 3
}

extension WireReader {
    /// Reads `u8 policy · u16 n · n × str prefix`; nil for policy 0.
    fileprivate mutating func topicPolicy() throws(WireError) -> TopicPolicy? {
        let number: TopicPolicyNumber = try choice("topic policy")
        let prefixes = try strings()
        guard number == .prefixes || prefixes.isEmpty else {
            throw .unknownValue(field: "prefix count", value: UInt64(prefixes.count))
        }
        switch number {
        case .unchanged: return nil
        case .all: return .all
        case .noTopics: return .noTopics
        case .prefixes: return .prefixes(prefixes)
        }
    }
}

extension WireWriter {
    fileprivate mutating func topicPolicy(_ policy: TopicPolicy?) {
        let (number, prefixes): (TopicPolicyNumber, [String]) =
            switch policy {
            case nil: (.unchanged, [])
            case .some(.all): (.all, [])
            case .some(.noTopics): (.noTopics, [])
            case .some(.prefixes(let prefixes)): (.prefixes, prefixes)
            }
        u8(number.rawValue)
        strings(prefixes)
    }
}

extension AdministratorInterface {
    /// REG-7, TOP-10: the rules of a project for its devices.
    /// - Throws: `NOT_FOUND`.
    public func policies(of project: String) async throws(Failure) -> ProjectPolicies {
        try await requests.ask(FindPoliciesRequest(projectID: project)).policies
    }

    /// REG-7, TOP-10: changes the rules of a project for its devices, with immediate effect for later registrations
    /// and subscriptions. nil keeps a rule. Instances and subscriptions stay.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT` for prefixes.
    public func setPolicies(
        registration: RegistrationPolicy? = nil, topics: TopicPolicy? = nil, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            ChangePoliciesRequest(
                projectID: project, registration: registration, topics: topics))
    }
}
