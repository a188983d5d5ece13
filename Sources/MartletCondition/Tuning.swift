// SPDX-License-Identifier: Apache-2.0
//
// Thresholds between the ways of combining sets. The numbers change no result. Measured by SpeedTests on an EPYC
// with AVX-512, in nanoseconds per block. Rests on nothing.

enum Tuning {
    /// Largest number of list elements plus lookups for which a list is filtered element by element. An element
    /// costs 1.0 ns; scattering a list and running the kernel over three sets costs about 250 ns.
    static let lookupsMax = 220
    /// Largest number of elements for which lists are merged. An element costs 4 ns; scattering three short lists
    /// and running the kernel costs about 300 ns.
    static let mergedElementsMax = 60
    /// Largest number of elements for which a bytecode register stays a list: the capacity of a block's list form.
    /// The 4096 bytes of a register have room for four times as many.
    static let registerListMax = 500
}
