// SPDX-License-Identifier: Apache-2.0
//
// Parameters and results of statements, in PostgreSQL's binary form: numbers with the high byte first, bytes and text
// as they are. Rests on CPostgres. Source: PostgreSQL 15, chapters 8 and 34; pg_type.dat for the numbers of types.

internal import CPostgres

/// A parameter of a statement.
package enum PostgresValue: Sendable {
    case integer(Int64)
    case number(Int32)
    case bytes([UInt8])
    case text(String)
    /// 16 bytes.
    case uuid([UInt8])
    case flag(Bool)

    /// The number of the type.
    fileprivate var type: UInt32 {
        switch self {
        case .flag: 16
        case .bytes: 17
        case .integer: 20
        case .number: 23
        case .text: 25
        case .uuid: 2950
        }
    }

    fileprivate func append(to buffer: inout [UInt8]) {
        switch self {
        case .integer(let value): withUnsafeBytes(of: value.bigEndian) { buffer += $0 }
        case .number(let value): withUnsafeBytes(of: value.bigEndian) { buffer += $0 }
        case .bytes(let bytes), .uuid(let bytes): buffer += bytes
        case .text(let text): buffer += text.utf8
        case .flag(let flag): buffer.append(flag ? 1 : 0)
        }
    }
}

/// The parameters of a statement as libpq takes them.
struct PostgresParameters {
    let types: [UInt32]
    private let lengths: [Int32]
    private let formats: [Int32]
    private let buffer: [UInt8]

    init(_ values: [PostgresValue]) {
        types = values.map(\.type)
        formats = values.map { _ in 1 }
        var lengths: [Int32] = []
        var buffer: [UInt8] = []
        for value in values {
            let start = buffer.count
            value.append(to: &buffer)
            lengths.append(Int32(buffer.count - start))
        }
        // libpq takes a null pointer for NULL, so empty values at the end need a place in the buffer too.
        buffer.append(0)
        self.lengths = lengths
        self.buffer = buffer
    }

    func withPointers<Result>(
        _ body: (
            _ count: Int32, _ values: [UnsafePointer<CChar>?], _ lengths: [Int32],
            _ formats: [Int32]
        ) -> Result
    ) -> Result {
        buffer.withUnsafeBytes { bytes in
            var values: [UnsafePointer<CChar>?] = []
            var offset = 0
            for length in lengths {
                values.append((bytes.baseAddress! + offset).assumingMemoryBound(to: CChar.self))
                offset += Int(length)
            }
            return body(Int32(lengths.count), values, lengths, formats)
        }
    }
}

/// The rows of a statement's result.
package final class PostgresResult {
    private let result: OpaquePointer

    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    package var rowCount: Int { Int(PQntuples(result)) }

    /// The rows that the statement has inserted, updated or deleted.
    package var changedCount: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }

    private func value(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: PQgetvalue(result, Int32(row), Int32(column)),
            count: Int(PQgetlength(result, Int32(row), Int32(column))))
    }

    package func isNull(_ row: Int, _ column: Int) -> Bool {
        PQgetisnull(result, Int32(row), Int32(column)) == 1
    }

    /// A number of any size.
    package func integer(_ row: Int, _ column: Int) -> Int64 {
        let bytes = value(row, column)
        var value: Int64 = bytes.first.map { Int8(bitPattern: $0) < 0 } ?? false ? -1 : 0
        for byte in bytes { value = value << 8 | Int64(byte) }
        return value
    }

    package func bytes(_ row: Int, _ column: Int) -> [UInt8] { Array(value(row, column)) }

    package func text(_ row: Int, _ column: Int) -> String {
        String(decoding: value(row, column), as: UTF8.self)
    }

    package func flag(_ row: Int, _ column: Int) -> Bool { value(row, column).first == 1 }
}
