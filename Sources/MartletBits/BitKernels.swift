// SPDX-License-Identifier: Apache-2.0
//
// The C kernels as Swift sees them: one value per instruction level. A call costs one indirect jump per block.
// Rests on CBitKernels, which no other module needs to import.

internal import CBitKernels

/// An instruction level of the kernels.
public enum SIMDLevel: Int32, Sendable, CaseIterable, Comparable {
    /// Any CPU; two words at a time.
    case scalar = 0
    /// AVX2 with BMI2 and POPCNT.
    case avx2 = 1
    /// AVX-512 with VBMI2 and VPOPCNTDQ.
    case avx512 = 2

    /// The level that the process chose at its start.
    public static var current: SIMDLevel {
        SIMDLevel(rawValue: cbk_current().pointee.level) ?? .scalar
    }

    /// The highest level of this CPU.
    public static var best: SIMDLevel { SIMDLevel(rawValue: cbk_best_level()) ?? .scalar }

    /// The level for a value of `MARTLET_SIMD` (`environment`) on a CPU with levels up to `best`. A level that the
    /// CPU lacks becomes `best`; an unknown word is ignored.
    public static func choose(environment: String?, best: SIMDLevel) -> SIMDLevel {
        SIMDLevel(rawValue: cbk_choose_level(environment, best.rawValue)) ?? .scalar
    }

    public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// The kernels of one level, over blocks of 510 words. `into` may be one of the inputs. Pointers need an alignment
/// of at most 8 bytes.
package struct BitKernels: @unchecked Sendable {
    let table: UnsafePointer<cbk_kernels>

    package static var current: BitKernels { BitKernels(table: cbk_current()) }

    init(table: UnsafePointer<cbk_kernels>) { self.table = table }

    /// nil if the CPU lacks the level.
    package init?(level: SIMDLevel) {
        guard let table = cbk_table(level.rawValue) else { return nil }
        self.table = table
    }

    package typealias Words = UnsafePointer<UInt64>

    package func and(_ a: Words, _ b: Words, into target: UnsafeMutablePointer<UInt64>) {
        cbk_and(table, target, a, b)
    }
    package func or(_ a: Words, _ b: Words, into target: UnsafeMutablePointer<UInt64>) {
        cbk_or(table, target, a, b)
    }
    /// `a & ~b`
    package func andNot(_ a: Words, _ b: Words, into target: UnsafeMutablePointer<UInt64>) {
        cbk_andnot(table, target, a, b)
    }
    package func count(_ a: Words) -> Int { Int(cbk_popcount(table, a)) }
    package func countAnd(_ a: Words, _ b: Words) -> Int { Int(cbk_and_popcount(table, a, b)) }

    /// Evaluates a boolean function of 1 to 5 inputs. Bit `i` of `truthTable` is the function's value where input
    /// `s` has the value of bit `s` of `i`.
    ///
    /// - Returns: how many bits of the result are set. Without `into` the function only counts.
    package func evaluate(
        truthTable: UInt32, inputs: UnsafeBufferPointer<Words>,
        into target: UnsafeMutablePointer<UInt64>?
    ) -> Int {
        precondition(
            (1...Int(CBK_TRUTH_INPUTS_MAX)).contains(inputs.count),
            "A truth table has 1 to 5 inputs.")
        return Int(cbk_truth(table, target, inputs.baseAddress!, UInt32(inputs.count), truthTable))
    }

    /// The value that ends every list for `merge`.
    package static let sentinel: UInt32 = 0xFFFF_FFFF

    /// Merges 1 to 5 ascending lists through a truth table. `sentinel` follows each list. `target` has room for one
    /// value more than all lists together.
    ///
    /// - Returns: how many values match.
    package static func merge(
        truthTable: UInt32, lists: UnsafeBufferPointer<UnsafePointer<UInt32>>,
        into target: UnsafeMutablePointer<UInt32>?
    ) -> Int {
        precondition(
            (1...Int(CBK_TRUTH_INPUTS_MAX)).contains(lists.count),
            "A truth table has 1 to 5 inputs.")
        return cbk_merge(target, lists.baseAddress!, UInt32(lists.count), truthTable)
    }

    /// Largest number of spans in one count: the inputs of a truth table, and one span that bounds the result.
    package static let spansMax = Int(CBK_SPAN_INPUTS_MAX)

    /// Counts the members of a boolean function of 1 to 6 spans. Bit `i` of `truthTable` is the function's value
    /// where span `s` has the value of bit `s` of `i`. Bit 0 must be clear: an ordinal outside all spans never
    /// matches. With six spans, an ordinal outside the last span never matches either.
    /// - Parameter addresses: the addresses of sound spans.
    package func countSpans(
        _ addresses: UnsafeBufferPointer<UnsafeRawPointer>, _ truthTable: UInt64
    ) -> Int {
        precondition(
            (1...Self.spansMax).contains(addresses.count), "Spans of 1 to 6 slots are counted.")
        return Int(
            cbk_spans(table, addresses.baseAddress!, UInt32(addresses.count), truthTable))
    }

    /// Counts the common ordinals of two lists. A list has four little-endian bytes per ordinal, ascending and
    /// distinct, at any alignment.
    package func countCommon(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Int {
        guard let x = a.baseAddress, let y = b.baseAddress else { return 0 }
        return cbk_common(table, x, a.count / 4, y, b.count / 4)
    }

    /// Elements that `compress` may write behind the last position.
    package static let compressSlack = Int(CBK_COMPRESS_SLACK)

    /// Writes the positions of the set bits, ascending. `target` has room for all of them and `compressSlack` more.
    package func compress(_ a: Words, into target: UnsafeMutablePointer<UInt16>) -> Int {
        Int(cbk_compress(table, target, a))
    }

    /// Writes the handles of the bits set in both `a` and `mine`; see `cbk_kernels.select`.
    package func select(
        _ a: Words, mine: Words, prefix: UnsafePointer<UInt16>, handles: UnsafePointer<UInt32>,
        into target: UnsafeMutableBufferPointer<UInt32>, word: inout UInt32
    ) -> Int {
        Int(
            cbk_select(
                table, target.baseAddress!, UInt32(target.count), a, mine, prefix, handles, &word))
    }
}

/// Sets bits in a block of 512 words; `list` holds positions of two bytes.
func scatter(_ list: UnsafeBufferPointer<UInt16>, into words: UnsafeMutablePointer<UInt64>) {
    cbk_scatter16(words, list.baseAddress, list.count)
}

/// Sets bits in a block of 512 words; `list` holds ordinals of four bytes.
func scatterWide(_ list: UnsafeRawBufferPointer, into words: UnsafeMutablePointer<UInt64>) {
    cbk_scatter32(words, list.baseAddress, list.count / 4)
}

/// Sets the bits of runs in a block of 510 words.
func set(runs toggles: UnsafeBufferPointer<UInt16>, in words: UnsafeMutablePointer<UInt64>) {
    guard let base = toggles.baseAddress else { return }
    cbk_set_runs(words, base, toggles.count)
}

/// Clears the bits of runs in a block of 510 words.
func clear(runs toggles: UnsafeBufferPointer<UInt16>, in words: UnsafeMutablePointer<UInt64>) {
    guard let base = toggles.baseAddress else { return }
    cbk_clear_runs(words, base, toggles.count)
}

/// Writes the toggles of a block of 510 words; nil if `target` has no room for all of them.
func toggles(
    of words: UnsafePointer<UInt64>, into target: UnsafeMutableBufferPointer<UInt16>
) -> Int? {
    guard let base = target.baseAddress else { return nil }
    let count = cbk_toggles(base, UInt32(target.count), words)
    return count == CBK_TOO_MANY ? nil : Int(count)
}

/// Clears bits in a block of 512 words; `list` holds positions of two bytes.
func clear(_ list: UnsafeBufferPointer<UInt16>, in words: UnsafeMutablePointer<UInt64>) {
    cbk_clear16(words, list.baseAddress, list.count)
}

/// Clears bits in a block of 512 words; `list` holds ordinals of four bytes.
func clearWide(_ list: UnsafeRawBufferPointer, in words: UnsafeMutablePointer<UInt64>) {
    cbk_clear32(words, list.baseAddress, list.count / 4)
}

/// Counts the positions of two bytes whose bit is set in a block of 512 words.
func lookUp(_ list: UnsafeBufferPointer<UInt16>, in words: UnsafePointer<UInt64>) -> Int {
    Int(cbk_lookup16(words, list.baseAddress, list.count))
}

/// Counts the ordinals of four bytes whose bit is set in a block of 512 words.
func lookUpWide(_ list: UnsafeRawBufferPointer, in words: UnsafePointer<UInt64>) -> Int {
    Int(cbk_lookup32(words, list.baseAddress, list.count / 4))
}
