// SPDX-License-Identifier: Apache-2.0
//
// Reads the golden vectors of `Tests/Vectors`, and the little that all tests of the codec share:
// frames of either direction as one value, and a seeded generator. Rests on `MartletWire`.

import Foundation
import MartletWire

/// A frame of either direction, or between two nodes.
enum AnyFrame: Hashable {
    case client(ClientFrame)
    case broker(BrokerFrame)
    case node(NodeFrame)

    var encoded: [UInt8] {
        var writer = WireWriter()
        switch self {
        case .client(let frame): frame.encode(into: &writer)
        case .broker(let frame): frame.encode(into: &writer)
        case .node(let frame): frame.encode(into: &writer)
        }
        return writer.bytes
    }

    /// Decodes with the same direction as this frame.
    func decodeSame(type: UInt8, body: [UInt8]) throws(WireError) -> AnyFrame {
        switch self {
        case .client: .client(try ClientFrame.decode(type: type, body: body.span.bytes))
        case .broker: .broker(try BrokerFrame.decode(type: type, body: body.span.bytes))
        case .node: .node(try NodeFrame.decode(type: type, body: body.span.bytes))
        }
    }
}

enum Vectors {
    static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Vectors")

    static var names: [String] {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return files.filter { $0.hasSuffix(".hex") }.map { String($0.dropLast(4)) }.sorted()
    }

    /// The bytes of a vector: hex digits up to `#` on each line.
    static func bytes(_ name: String) throws -> [UInt8] {
        let text = try String(contentsOf: folder.appending(path: name + ".hex"), encoding: .utf8)
        return text.split(separator: "\n").flatMap { line in
            line.prefix { $0 != "#" }.split(separator: " ").map { UInt8($0, radix: 16)! }
        }
    }
}
