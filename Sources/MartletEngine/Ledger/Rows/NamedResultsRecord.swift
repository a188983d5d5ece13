// SPDX-License-Identifier: Apache-2.0
//
// The results for the instances that a message named, at the end of a kept answer (MSG-9):
//
//     no bytes:        none
//     u8 1, group:     u32 successes ‖ for each failure 24 bytes token ‖ u16 word
//     u8 2, tokens:    u32 successes ‖ for each failure u32 index ‖ u16 word
//
// Rests on RecordBytes.

import MartletBase
import MartletRows

extension NamedResults {
    private static let groupMark: UInt8 = 1
    private static let tokensMark: UInt8 = 2

    init(_ reader: inout RecordReader) throws(StorageError) {
        guard !reader.isAtEnd else {
            self = .none
            return
        }
        let kind = try reader.read(UInt8.self)
        let successCount = Int(try reader.read(UInt32.self))
        switch kind {
        case Self.groupMark:
            var failures: [GroupFailure] = []
            while !reader.isAtEnd {
                let token = Token(bytes: Array(try reader.bytes(Limits.tokenRandomBytes)))
                failures.append(GroupFailure(token: token, word: try reader.word()))
            }
            self = .group(successCount: successCount, failures: failures)
        case Self.tokensMark:
            var failures: [TopicChangeResult.Failure] = []
            while !reader.isAtEnd {
                let index = Int(try reader.read(UInt32.self))
                failures.append(.init(index: index, word: try reader.word()))
            }
            self = .tokens(successCount: successCount, failures: failures)
        default: throw reader.damaged()
        }
    }

    func append(to writer: inout RecordWriter) {
        switch self {
        case .none: break
        case .group(let successCount, let failures):
            writer.append(Self.groupMark)
            writer.append(UInt32(successCount))
            for failure in failures {
                writer.bytes += failure.token.bytes
                writer.append(failure.word.rawValue)
            }
        case .tokens(let successCount, let failures):
            writer.append(Self.tokensMark)
            writer.append(UInt32(successCount))
            for failure in failures {
                writer.append(UInt32(failure.index))
                writer.append(failure.word.rawValue)
            }
        }
    }
}

extension RecordReader {
    fileprivate mutating func word() throws(StorageError) -> ErrorWord {
        guard let word = ErrorWord(rawValue: try read(UInt16.self)) else { throw damaged() }
        return word
    }
}
