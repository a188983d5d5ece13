// SPDX-License-Identifier: Apache-2.0
//
// What a node may be called (OPS-7). A name is validated once, at the edge; from there on code relies on `NodeName`. Rests on
// ClusterLimits.

package import MartletBase

/// A node's name, chosen by the operator: 1 to 40 letters, digits, dots, hyphens and underscores.
package struct NodeName: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let text: String

    /// - Throws: `invalidArgument` for other characters, or another length.
    package init(validating text: some StringProtocol) throws(MartletError) {
        let isAllowed = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"),
                UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard (1...ClusterLimits.nodeNameBytesMax).contains(text.utf8.count), isAllowed else {
            throw MartletError(
                .invalidArgument,
                """
                A node's name has 1 to \(ClusterLimits.nodeNameBytesMax) letters, digits, dots, \
                hyphens and underscores, all of ASCII.
                """, field: "node")
        }
        self.text = String(text)
    }

    package var description: String { text }

    package static func < (a: Self, b: Self) -> Bool { a.text < b.text }
}
