// SPDX-License-Identifier: Apache-2.0
//
// The report of a refusal: the error word, the place and the remedy; below a condition, a caret under the byte at
// fault. The report never holds a token or a key. Rests on MartletError and Caret.

import Martlet
import MartletAnswers

/// An error about a condition, with the condition's text for the report.
struct ConditionFailure: Error {
    var error: MartletError
    var condition: String
}

/// Runs `body`. If `body` refuses the condition, the error keeps the condition's text for the caret.
func pointing<Result>(
    at condition: String?, _ body: () async throws -> Result
) async throws -> Result {
    do {
        return try await body()
    } catch let error as MartletError {
        guard let condition, error.byteOffset != nil else { throw error }
        throw ConditionFailure(error: error, condition: condition)
    }
}

struct FailureReport {
    private let body: FailureAnswer.Body
    /// The reason, in words for people.
    let people: String
    var code: String { body.code }

    init(_ failure: any Error) {
        switch failure {
        case let failure as ConditionFailure:
            body = .init(failure.error)
            people =
                failure.error.description + "\n"
                + Caret.pointing(at: Int(failure.error.byteOffset ?? 0), of: failure.condition)
        case let error as MartletError:
            body = .init(error)
            people = error.description
        default:
            body = .init(code: "FAILED", message: "\(failure)")
            people = "\(failure)"
        }
    }

    func text(asJSON: Bool) -> String {
        asJSON ? JSON.line(FailureAnswer(error: body)) : "martlet: \(people)"
    }
}
