// SPDX-License-Identifier: Apache-2.0
//
// What all typed frames share: a number and a body that can be written. Reading is an initialiser of
// each type, and the choice among them is made in `ClientFrame` and `BrokerFrame`, so nothing here
// is ever held as an existential. Rests on `WireWriter`.

/// A frame that can be appended to a writer.
public protocol WireFrame: Sendable, Hashable {
    var type: FrameType { get }
    /// Everything after the type byte.
    func encodeBody(into writer: inout WireWriter)
}

extension WireFrame {
    /// Length, type and body.
    @inlinable
    public func encode(into writer: inout WireWriter) {
        writer.frame(type) { writer in encodeBody(into: &writer) }
    }
}
