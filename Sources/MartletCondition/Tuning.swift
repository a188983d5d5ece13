// SPDX-License-Identifier: Apache-2.0
//
// Where one way of combining sets becomes cheaper than another. These numbers change no result.
// Rests on nothing.

enum Tuning {
    /// Elements walked and looked up one by one instead of scattering lists and running the kernel
    /// over the block.
    static let lookupsMax = 400
    /// Elements of lists merged one by one instead of scattered.
    static let mergedElementsMax = 100
    /// Elements up to which a register of the bytecode stays a list: what a block's list form
    /// holds. A register's 4096 bytes have room for twice that and more.
    static let registerListMax = 500
}
