// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a refusal, for machines: the error word, a sentence, and the place at fault. Property names are the names in
// the JSON output. Pure.

package import Martlet

/// A refusal: `{"error": {"code": "NOT_FOUND", "message": "…"}}`.
package struct FailureAnswer: Encodable, Sendable {
    package struct Body: Encodable, Sendable {
        /// The error word.
        package var code: String
        package var message: String
        /// Path of the field at fault; nil: the refusal concerns no field.
        package var field: String?
        /// Offset of the fault in a condition, in bytes.
        package var byteOffset: UInt32?
        /// Time after which another attempt can succeed.
        package var retryDelayMilliseconds: UInt32?

        package init(code: String, message: String) {
            self.code = code
            self.message = message
        }

        package init(_ error: MartletError) {
            self.init(code: error.word.name, message: error.message)
            field = error.field.isEmpty ? nil : error.field
            byteOffset = error.byteOffset
            retryDelayMilliseconds = error.retryDelayMilliseconds
        }
    }

    package var error: Body

    package init(error: Body) { self.error = error }
}
