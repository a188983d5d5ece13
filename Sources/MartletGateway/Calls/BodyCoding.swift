// SPDX-License-Identifier: Apache-2.0
//
// Decodes a request's body from its content coding (GW-16). Google's clients for Java and .NET send bodies in gzip without
// being asked to. The bound on a body holds for what comes out, so a short body that unpacks to gigabytes costs no more than a
// long one. Source: RFC 9110, section 8.4; RFC 1952. Rests on zlib.

import CZlib

/// How the bytes of a body are packed.
enum BodyCoding: Sendable {
    case identity
    case gzip

    enum Failure: Error {
        /// The content has more bytes than a body may have.
        case tooLong
        /// There is no memory for the content.
        case full
        /// The bytes are not whole, or not gzip.
        case broken
    }

    /// Bytes that are unpacked at a time.
    private static let pieceBytes = 16 * 1024

    /// The coding of a call's body; nil for one that is not unpacked here, and for several.
    init?(of call: GatewayCall) {
        var codings: [String] = []
        for header in call.headers where header.name == "content-encoding" {
            codings += header.value.split(separator: ",").map {
                $0.filter { $0 != " " && $0 != "\t" }.lowercased()
            }
        }
        switch codings.filter({ !$0.isEmpty && $0 != "identity" }) {
        case []: self = .identity
        case ["gzip"], ["x-gzip"]: self = .gzip
        default: return nil
        }
    }

    /// Unpacks a body.
    /// - Parameters:
    ///   - most: longest content, in bytes.
    ///   - hold: counts bytes of the content before they are kept; false ends the work.
    func content(
        of body: [UInt8], most: Int, hold: (Int) -> Bool
    ) throws(Failure) -> [UInt8] {
        guard case .gzip = self, !body.isEmpty else { return body }
        var stream = z_stream()
        // zlib compares the address of its stream at each call.
        return try withUnsafeMutablePointer(to: &stream) { (stream) throws(Failure) in
            guard martlet_inflate_begin_gzip(stream) == Z_OK else { throw .full }
            defer { inflateEnd(stream) }
            return try Self.inflate(body, by: stream, most, hold)
        }
    }

    private static func inflate(
        _ body: [UInt8], by stream: UnsafeMutablePointer<z_stream>, _ most: Int,
        _ hold: (Int) -> Bool
    ) throws(Failure) -> [UInt8] {
        var content: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: pieceBytes)
        try body.withUnsafeBufferPointer { (input) throws(Failure) in
            stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
            stream.pointee.avail_in = UInt32(input.count)
            while true {
                let code = piece.withUnsafeMutableBufferPointer { output in
                    stream.pointee.next_out = output.baseAddress
                    stream.pointee.avail_out = UInt32(output.count)
                    return CZlib.inflate(stream, Z_NO_FLUSH)
                }
                let count = pieceBytes - Int(stream.pointee.avail_out)
                guard content.count + count <= most else { throw .tooLong }
                guard hold(count) else { throw .full }
                content += piece[..<count]
                switch code {
                case Z_OK: break
                case Z_STREAM_END:
                    if stream.pointee.avail_in == 0 { return }
                    // A body may be several files, one behind the other.
                    inflateReset(stream)
                case Z_MEM_ERROR: throw .full
                default: throw .broken
                }
            }
        }
        return content
    }
}
