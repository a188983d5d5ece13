// SPDX-License-Identifier: Apache-2.0
//
// The rules of a project for its devices: who may register (REG-7), and which topics a device may choose for itself
// (TOP-10). Rests on TopicName.

/// REG-7: what a new device of a project must present. The number is part of the store's format and of the protocol.
public enum RegistrationPolicy: UInt8, Sendable, Hashable, CaseIterable {
    /// A registration key of the project. The default of a new project.
    case key = 1
    /// A ticket: a token signed by the app's own server, good once.
    case ticket = 2
    /// Nothing. Only devices of apps that an administrator made may register.
    case open = 3

    /// The word of the policy on the command line.
    public var name: String { String(describing: self) }
}

/// REG-7: what a device presents at its registration.
public enum RegistrationCredential: Sendable, Hashable {
    /// Nothing: enough for the policy `open` alone.
    case none
    /// The text of a registration key.
    case key(String)
    /// A ticket in JWS compact serialization.
    case ticket(String)
}

/// TOP-10: the topics that a device of a project may subscribe itself to.
public enum TopicPolicy: Sendable, Hashable {
    /// Every topic. The default of a new project.
    case all
    /// No topic. In an optional place `none` would mean that there is no policy.
    case noTopics
    /// Topics whose names begin with one of the prefixes, 1 to `Limits.topicGrantsMax` of them.
    case prefixes([String])

    /// Checks the number and the characters of the prefixes, and removes `/topics/` from their beginnings, as from
    /// the names of topics.
    /// - Throws: `invalidArgument`.
    public func validated() throws(MartletError) -> TopicPolicy {
        guard case .prefixes(let prefixes) = self else { return self }
        guard (1...Limits.topicGrantsMax).contains(prefixes.count) else {
            throw MartletError(
                .invalidArgument,
                "A topic policy has 1 to \(Limits.topicGrantsMax) prefixes.", field: "topics")
        }
        return .prefixes(
            try prefixes.map { (prefix) throws(MartletError) in
                try TopicName(validating: prefix).text
            })
    }

    /// - Parameter grants: topics that the device's ticket allows beside the policy. A grant that ends with `*` is a
    ///   prefix.
    public func allows(_ topic: TopicName, grants: [String]) -> Bool {
        switch self {
        case .all: return true
        case .noTopics: break
        case .prefixes(let prefixes):
            if prefixes.contains(where: { topic.text.utf8.starts(with: $0.utf8) }) { return true }
        }
        return grants.contains { grant in
            grant.utf8.last == UInt8(ascii: "*")
                ? topic.text.utf8.starts(with: grant.utf8.dropLast()) : topic.text == grant
        }
    }

    /// Whether a ticket may name the text: a topic, or the beginning of topics with `*` at its end.
    public static func isGrant(_ text: String) -> Bool {
        let name = text.utf8.last == UInt8(ascii: "*") ? text.dropLast() : text[...]
        let allowed = name.utf8.allSatisfy { TopicName.isAllowed($0) }
        return allowed && !text.isEmpty && name.utf8.count <= Limits.topicNameBytesMax
    }
}

/// A project's rules for its devices.
public struct ProjectPolicies: Sendable, Hashable {
    /// REG-7: what a new device must present.
    public var registration: RegistrationPolicy
    /// TOP-10: the topics that a device may subscribe itself to.
    public var topics: TopicPolicy

    /// Makes the policies of a new project, unless others are given.
    public init(registration: RegistrationPolicy = .key, topics: TopicPolicy = .all) {
        self.registration = registration
        self.topics = topics
    }
}

/// REG-7: how the tickets of a ticket key are signed (RFC 7518). The number is part of the store's format
/// and of the protocol.
public enum TicketAlgorithm: UInt8, Sendable, Hashable, CaseIterable {
    /// HMAC with SHA-256. The broker keeps the secret itself, because a digest could verify nothing.
    case hs256 = 1
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    case rs256 = 2
    /// ECDSA on P-256 with SHA-256.
    case es256 = 3

    /// The word of the algorithm in a ticket's header.
    public var name: String {
        switch self {
        case .hs256: "HS256"
        case .rs256: "RS256"
        case .es256: "ES256"
        }
    }
}
