// SPDX-License-Identifier: Apache-2.0
//
// The members of a JSON object. A `String` equals another one that merely looks the same: `é` in one code point and `é`
// as `e` with an accent. JSON compares names by code point, so such names are two members, and a dictionary of strings
// would lose one of them. Source: RFC 8259 §8.3.

/// The members of a JSON object, whose names are compared by code point.
public struct JSONObject: Sendable, Hashable, ExpressibleByDictionaryLiteral, Sequence {
    /// A member's name.
    private struct Name: Sendable, Hashable {
        let text: String

        static func == (left: Name, right: Name) -> Bool {
            left.text.utf8.elementsEqual(right.text.utf8)
        }

        func hash(into hasher: inout Hasher) {
            for byte in text.utf8 { hasher.combine(byte) }
        }
    }

    private var members: [Name: JSONValue] = [:]

    /// An object without members.
    public init() {}

    /// An object of pairs. Of a name that is there twice, the last value counts.
    public init(_ pairs: some Sequence<(String, JSONValue)>) {
        for (name, value) in pairs { self[name] = value }
    }

    /// An object from a literal. Of a name that is there twice, the last value counts.
    public init(dictionaryLiteral pairs: (String, JSONValue)...) { self.init(pairs) }

    /// The value of a member; nil for no such member. Setting nil removes the member.
    public subscript(name: String) -> JSONValue? {
        get { members[Name(text: name)] }
        set { members[Name(text: name)] = newValue }
    }

    /// Number of the members.
    public var count: Int { members.count }
    /// Whether there is no member.
    public var isEmpty: Bool { members.isEmpty }
    /// Names in the order of their code points.
    public var names: [String] { map(\.key) }

    /// Sets a member.
    /// - Returns: the former value; nil for a new member.
    @discardableResult
    public mutating func updateValue(_ value: JSONValue, forKey name: String) -> JSONValue? {
        members.updateValue(value, forKey: Name(text: name))
    }

    /// Removes a member.
    /// - Returns: its value; nil for no such member.
    @discardableResult
    public mutating func removeValue(forKey name: String) -> JSONValue? {
        members.removeValue(forKey: Name(text: name))
    }

    /// Adds the members of another object, which replace those of the same name.
    public mutating func merge(_ other: JSONObject) { members.merge(other.members) { $1 } }

    /// The members in the order of their names' code points.
    public func makeIterator() -> IndexingIterator<[(key: String, value: JSONValue)]> {
        members.map { (key: $0.key.text, value: $0.value) }
            .sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            .makeIterator()
    }
}
