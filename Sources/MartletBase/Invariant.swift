// SPDX-License-Identifier: Apache-2.0
//
// The statement of a rule that Martlet's own code upholds. A broken rule means a fault in the code, and going on would
// write a wrong state to the disk or to memory. So the process ends, in release builds too, and names the rule. The
// journal then brings the store back to the last commit. Bytes from the disk and frames of peers are not invariants:
// they get typed errors. Swift's `precondition` prints no message in release builds. Rests on nothing.

/// Ends the process with `rule` unless `holds`. Costs one comparison and a branch that is never taken.
///
/// A rule that is dear to check, or that lies on the path of a single delivery, uses `assert` instead, or belongs to the
/// checks of whole states, such as `Delivery.brokenInvariant`.
/// - Parameter rule: a sentence that is true of correct code, without secrets.
@inlinable @inline(__always)
package func invariant(
    _ holds: @autoclosure () -> Bool, _ rule: StaticString, file: StaticString = #fileID,
    line: UInt = #line
) {
    if _fastPath(holds()) { return }
    endOverBrokenInvariant(rule, file, line)
}

/// Ends the process at a place that correct code does not reach.
@inlinable @inline(__always)
package func invariantFailure(
    _ rule: StaticString, file: StaticString = #fileID, line: UInt = #line
) -> Never {
    endOverBrokenInvariant(rule, file, line)
}

@inline(never) @usableFromInline
func endOverBrokenInvariant(_ rule: StaticString, _ file: StaticString, _ line: UInt) -> Never {
    fatalError("Invariant broken: \(rule)", file: file, line: line)
}

extension Sequence where Element: Comparable {
    /// Whether each element is above the element before.
    package var isAscending: Bool { zip(self, dropFirst()).allSatisfy { $0 < $1 } }
}
