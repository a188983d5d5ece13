// SPDX-License-Identifier: Apache-2.0
//
// ERROR, a refusal on the wire. The frame carries a `MartletError` field by field, so the client's caller catches
// the error that the broker threw. Rests on `MartletError`.

public import MartletBase

/// ERROR (0x05). An error with correlation 0 concerns the connection itself (on a channel: the app), which then
/// closes.
public struct ErrorFrame: WireFrame {
    public var correlation: UInt32
    public var error: MartletError

    public init(correlation: UInt32, error: MartletError) {
        self.correlation = correlation
        self.error = error
    }

    package var type: FrameType { .error }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.u32()
        let word = try reader.errorWord()
        let retryDelay = try reader.optionalU32()
        let byteOffset = try reader.optionalU32()
        let field = try reader.string()
        let message = try reader.string()
        error = MartletError(
            word, message, field: field, byteOffset: byteOffset,
            retryDelayMilliseconds: retryDelay)
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u16(error.word.rawValue)
        writer.optionalU32(error.retryDelayMilliseconds)
        writer.optionalU32(error.byteOffset)
        writer.string(error.field)
        writer.string(error.message)
    }
}

extension WireReader {
    /// Reads an error word by number. A number that a later version introduced reads as `internal`.
    mutating func errorWord() throws(WireError) -> ErrorWord {
        ErrorWord(rawValue: try u16()) ?? .internal
    }
}
