// SPDX-License-Identifier: Apache-2.0
//
// A topic policy on the wire, and an administrator's requests about a project's rules for its devices (REG-7, TOP-10). Rests on
// `WireReader`, `WireWriter` and `AdministratorInterface`.

public import MartletBase

/// The number of a topic policy on the wire. The prefixes follow the number; for all numbers but `prefixes` the list
/// is empty.
private enum TopicPolicyNumber: UInt8 {
    case unchanged = 0
    case all = 1
    case noTopics = 2
    case prefixes = 3
}

extension TopicPolicy {
    init(from reader: inout WireReader) throws(WireError) {
        guard let policy = try Self.optional(from: &reader) else {
            throw .unknownValue(field: "topic policy", value: 0)
        }
        self = policy
    }

    /// Reads a policy, or nil for policy 0.
    static func optional(from reader: inout WireReader) throws(WireError) -> Self? {
        let number: TopicPolicyNumber = try reader.choice("topic policy")
        let prefixes = try reader.strings()
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

    func encode(into writer: inout WireWriter) { Self.encode(self, into: &writer) }

    static func encode(_ policy: Self?, into writer: inout WireWriter) {
        let (number, prefixes): (TopicPolicyNumber, [String]) =
            switch policy {
            case nil: (.unchanged, [])
            case .some(.all): (.all, [])
            case .some(.noTopics): (.noTopics, [])
            case .some(.prefixes(let prefixes)): (.prefixes, prefixes)
            }
        writer.u8(number.rawValue)
        writer.strings(prefixes)
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
