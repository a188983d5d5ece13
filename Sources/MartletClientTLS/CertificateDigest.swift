// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 for the comparison of a certificate with a known one. A client is built without a C module (DEV-6), so the
// digest is Swift; a handshake computes one digest of a few kilobytes, and no secret is among the bytes. Pure.
// Source: FIPS 180-4.

/// SHA-256 of a certificate.
package enum CertificateDigest {
    private static let blockBytes = 64

    /// The digest of the bytes.
    package static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var padded = bytes + [0x80]
        let rest = (padded.count + 8) % blockBytes
        padded += [UInt8](repeating: 0, count: rest == 0 ? 0 : blockBytes - rest)
        let bits = UInt64(bytes.count) * 8
        padded += (0..<8).map { UInt8(truncatingIfNeeded: bits >> (56 - 8 * $0)) }
        var state = fractions(of: 2)
        for start in stride(from: 0, to: padded.count, by: blockBytes) {
            add(padded[start..<(start + blockBytes)], to: &state)
        }
        return state.flatMap { word in
            (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * $0)) }
        }
    }

    private static let constants = fractions(of: 3)

    private static func add(_ block: ArraySlice<UInt8>, to state: inout [UInt32]) {
        var words = stride(from: block.startIndex, to: block.endIndex, by: 4).map { index in
            block[index..<(index + 4)].reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
        }
        for index in 16..<64 {
            let (early, late) = (words[index - 15], words[index - 2])
            let first = turned(early, 7) ^ turned(early, 18) ^ early >> 3
            let second = turned(late, 17) ^ turned(late, 19) ^ late >> 10
            words.append(words[index - 16] &+ first &+ words[index - 7] &+ second)
        }
        var work = state
        for index in 0..<64 {
            let (a, e) = (work[0], work[4])
            let choice = e & work[5] ^ ~e & work[6]
            let majority = a & work[1] ^ a & work[2] ^ work[1] & work[2]
            let first =
                work[7] &+ (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) &+ choice
                &+ constants[index] &+ words[index]
            let second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) &+ majority
            work = [first &+ second] + work[0..<3] + [work[3] &+ first] + work[4..<7]
        }
        for index in state.indices { state[index] &+= work[index] }
    }

    private static func turned(_ word: UInt32, _ bits: UInt32) -> UInt32 {
        word >> bits | word << (32 - bits)
    }

    /// FIPS 180-4, sections 4.2.2 and 5.3.3: the first 32 bits of the fractions of roots. The state begins with square
    /// roots of the first 8 primes; the constants are cube roots of the first 64 primes.
    private static func fractions(of degree: Int) -> [UInt32] {
        var primes: [UInt64] = []
        var candidate: UInt64 = 2
        while primes.count < (degree == 2 ? 8 : 64) {
            if !primes.contains(where: { candidate.isMultiple(of: $0) }) {
                primes.append(candidate)
            }
            candidate += 1
        }
        return primes.map { prime in root(of: prime, degree) }
    }

    /// The largest number whose power is at most the prime, shifted by 32 bits for each factor of the power. Without
    /// its whole part the number is the fraction.
    private static func root(of prime: UInt64, _ degree: Int) -> UInt32 {
        let target = UInt128(prime) << (32 * UInt128(degree))
        var (low, high): (UInt128, UInt128) = (0, 1 << 37)
        while high - low > 1 {
            let middle = (low + high) / 2
            let power = (1..<degree).reduce(middle) { product, _ in product * middle }
            if power <= target { low = middle } else { high = middle }
        }
        return UInt32(truncatingIfNeeded: low)
    }
}
