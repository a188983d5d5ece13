// SPDX-License-Identifier: Apache-2.0
//
// The two reasons for which a command comes to nothing: a rule refuses the command, or the store fails. A refusal is
// an outcome, and the other commands of the transaction go on. Trouble of the store ends the transaction. Swift turns
// no typed error into another, so `rows` and `checked` say at each call which of the two may happen.
//
// Questions (`Queries`, `Reports`) throw both errors untyped. The code that answers a question takes every error except
// `MartletError` as trouble of the store, so an unknown error ends nothing. Pure.

import MartletBase
import MartletRows

/// The reason why a rule has no result.
enum Obstacle: Error {
    case refusal(MartletError)
    case trouble(StorageError)

    /// The refusal that the sender is told.
    /// - Throws: `StorageError` if the store failed.
    func refusal() throws(StorageError) -> MartletError {
        switch self {
        case .refusal(let refusal): return refusal
        case .trouble(let trouble): throw trouble
        }
    }

    /// A refusal for another field; trouble unchanged.
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
