// SPDX-License-Identifier: Apache-2.0
//
// What somebody meant who typed a name that does not exist: `sned` is `send`. Pure.

/// The known name that is closest to a mistyped one.
package enum Nearest {
    /// - Returns: nil if no name is close. A third of the letters may be wrong, and one letter always.
    package static func name(
        to typed: String, among names: some Sequence<String>
    ) -> String? {
        let typed = Array(typed.utf8)
        let most = max(typed.count / 3, 1)
        return names.map { (name: $0, distance: distance(typed, Array($0.utf8))) }
            .filter { $0.distance <= most && $0.distance < typed.count }
            .min { $0.distance < $1.distance }?.name
    }

    /// The end of an error's sentence: ` Did you mean 'send'?`, or nothing.
    package static func question(
        about typed: String, among names: some Sequence<String>
    ) -> String {
        name(to: typed, among: names).map { " Did you mean '\($0)'?" } ?? ""
    }

    /// Letters to add, to leave out, to change, or to swap with their neighbour until one word is the other.
    private static func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
        var (beforeLast, last) = ([Int](), Array(0...b.count))
        for i in a.indices {
            var row = [i + 1]
            for j in b.indices {
                var best = min(last[j] + (a[i] == b[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1)
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] {
                    best = min(best, beforeLast[j - 1] + 1)
                }
                row.append(best)
            }
            (beforeLast, last) = (last, row)
        }
        return last[b.count]
    }
}
