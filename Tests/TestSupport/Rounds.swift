// SPDX-License-Identifier: Apache-2.0
//
// How often the tests try a property. Without optimisation, as `make test` builds them, a round takes some ten times longer,
// and a tenth of the rounds is tried. `make test-all` tries them all, optimised.

/// The rounds of a test: `count` in an optimised build, a tenth of them, but at least one, in another.
public func rounds<Count: BinaryInteger>(_ count: Count) -> Count {
    #if DEBUG
        max(1, count / 10)
    #else
        count
    #endif
}
