// SPDX-License-Identifier: Apache-2.0
//
// The report of every error: `martlet: WORD (place): sentence`, with the remedy; below a condition, a caret under the byte
// at fault, and below a wrong command line the way to the right one. The report never holds a token or a key. Rests on MartletError and Caret.

import Logging
import Martlet
import MartletAnswers
import MartletClient

/// An error about a condition, with the condition's text for the report.
struct ConditionFailure: Error {
    var error: MartletError
    var condition: String
}

/// A wrong command line, or a wrong setting outside of it. The exit code is 64.
package struct Misuse: Error, CustomStringConvertible {
    /// A sentence that names the fault.
    package let description: String
    /// Further lines for people: how to find the right words.
    let help: String

    init(_ description: String, help: String = "") {
        self.description = description
        self.help = help
    }
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
    /// The reason alone.
    var message: String { body.message }
    /// What a line of the log has beside the reason.
    var metadata: Logger.Metadata {
        var metadata: Logger.Metadata = ["code": "\(body.code)"]
        metadata["field"] = body.field.map { "\($0)" }
        return metadata
    }

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
        case let misuse as Misuse:
            body = .init(code: ErrorWord.invalidArgument.name, message: misuse.description)
            people =
                "\(body.code): \(misuse.description)"
                + (misuse.help.isEmpty ? "" : "\n" + misuse.help)
        default:
            body = .init(code: "FAILED", message: NetworkFailure.words(failure))
            people = "\(body.code): \(body.message)"
        }
    }

    func text(asJSON: Bool) -> String {
        asJSON ? JSON.line(FailureAnswer(error: body)) : "martlet: \(people)"
    }
}
