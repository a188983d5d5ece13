// SPDX-License-Identifier: Apache-2.0
//
// Requirements of all typed frames: a type, and a body that can be written. Each frame type reads its body in an
// initialiser of its own, and `ClientFrame` and `BrokerFrame` choose the frame type. So no code holds a `WireFrame`
// as an existential. Rests on `WireWriter`.

/// A frame that can be appended to a `WireWriter`.
package protocol WireFrame: Sendable, Hashable {
    var type: FrameType { get }
    /// Appends all bytes after the type byte.
    func encodeBody(into writer: inout WireWriter)
}

extension WireFrame {
    /// Appends length, type and body.
    package func encode(into writer: inout WireWriter) {
        writer.frame(type) { writer in encodeBody(into: &writer) }
    }
}
