// SPDX-License-Identifier: Apache-2.0
//
// A command can fail for two reasons: a rule refuses it, or the store fails. A refusal is an outcome, and the transaction's
// other commands go on; trouble with the store ends the transaction. Swift doesn't convert one typed error into another, so
// `rows` and `checked` say at each call which of the two may happen.
//
// Questions (`Queries`, `Reports`) throw either, untyped. Whoever answers a question treats everything but a `MartletError`
// as trouble with the store, so an unknown error ends nothing. Pure.

import MartletBase
import MartletRows

/// Why a rule has no result.
enum Obstacle: Error {
    case refusal(MartletError)
    case trouble(StorageError)

    /// The refusal to tell the sender.
    /// - Throws: `StorageError` if the store failed.
    func refusal() throws(StorageError) -> MartletError {
        switch self {
        case .refusal(let refusal): return refusal
        case .trouble(let trouble): throw trouble
        }
    }

    /// The same refusal, about another field. Trouble stays as it is.
    func at(_ field: String) -> Obstacle {
        switch self {
        case .refusal(let refusal): .refusal(refusal.at(field))
        case .trouble: self
        }
    }
}

/// Reads or writes rows within a rule that may refuse.
@inline(__always)
func rows<Value>(
    _ access: @autoclosure () throws(StorageError) -> Value
) throws(Obstacle) -> Value {
    do { return try access() } catch { throw .trouble(error) }
}

/// Checks a value within a rule that reads rows.
@inline(__always)
func checked<Value>(
    _ check: @autoclosure () throws(MartletError) -> Value
) throws(Obstacle) -> Value {
    do { return try check() } catch { throw .refusal(error) }
}
