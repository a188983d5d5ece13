// SPDX-License-Identifier: Apache-2.0
//
// Prints results for machines. A command prints a single object or array; a series of results is an object on each
// line. Rests on Terminal.

import MartletAnswers

extension JSON {
    static func print(_ value: some Encodable) { Terminal.print(line(value)) }
}
