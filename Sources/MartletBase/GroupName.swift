// SPDX-License-Identifier: Apache-2.0
//
// What a device group may be called (GRP-1). Input is validated once, at the edge; code behind the edge can rely on a
// `GroupName`. Rests on `Limits`.

/// A valid group name: 1 to 255 bytes of UTF-8 without control characters. Case-sensitive.
public struct GroupName: Hashable, Sendable, CustomStringConvertible {
    /// The name as given: 1 to 255 bytes of UTF-8.
    public let text: String

    /// - Throws: `invalidArgument` for an empty name, a name above 255 bytes, or a control character.
    public init(validating text: some StringProtocol) throws(MartletError) {
        let isAllowed = text.unicodeScalars.allSatisfy {
            $0.properties.generalCategory != .control
        }
        guard (1...Limits.groupNameBytesMax).contains(text.utf8.count), isAllowed else {
            throw MartletError(
                .invalidArgument,
                """
                A group's name has 1 to \(Limits.groupNameBytesMax) bytes of UTF-8 and no control \
                characters.
                """, field: "name")
        }
        self.text = String(text)
    }

    public var description: String { text }
}
