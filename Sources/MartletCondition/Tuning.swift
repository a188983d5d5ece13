// SPDX-License-Identifier: Apache-2.0
//
// Where one way of combining sets becomes cheaper than another. These numbers change no result; the
// measurements are those of SpeedTests on an EPYC with AVX-512, in nanoseconds a block. Rests on
// nothing.

enum Tuning {
    /// Elements of lists plus lookups in other sets up to which a list is filtered one by one: one
    /// costs 1.0, and scattering a list and running the kernel over three sets about 250.
    static let lookupsMax = 220
    /// Elements up to which lists are merged: one costs 4, and scattering three short lists and
    /// running the kernel about 300.
    static let mergedElementsMax = 60
    /// Elements up to which a register of the bytecode stays a list: what a block's list form
    /// holds. A register's 4096 bytes have room for twice that and more.
    static let registerListMax = 500
}
