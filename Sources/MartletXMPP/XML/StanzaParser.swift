// SPDX-License-Identifier: Apache-2.0
//
// Cuts a stream's bytes into its header and its stanzas. Whatever RFC 6120 forbids ends the stream: document types,
// entities, comments and processing instructions (§11.1). Depth, elements, attributes and bytes are bounded, and bytes
// count as they arrive, so a tag that never ends is caught too. Only this file has pointers. Rests on libexpat.

import CExpat

/// The parser of one stream.
final class StanzaParser {
    enum Event {
        /// The start tag of the stream.
        case opened(StanzaElement)
        /// A complete element of the stream.
        case stanza(StanzaElement)
        /// The end tag of the stream.
        case closed
    }

    /// Separates namespace and name. XML doesn't allow this character, so neither can contain it.
    private static let separator: UInt8 = 1

    private let parser: XML_Parser
    private let stanzaBytesMax: Int
    private var events: [Event] = []
    private var fault: StreamError?
    /// Open elements, the outermost first.
    private var open: [StanzaElement] = []
    private var isStreamOpen = false
    private var elementCount = 0
    /// Bytes given to the parser so far.
    private var fedBytes = 0
    /// Bytes up to the end of the last whole stanza.
    private var stanzaStart = 0
    /// Bytes up to the end of the last whole tag or piece of text.
    private var tagStart = 0

    /// - Parameter stanzaBytesMax: longest stanza; a longer one ends the stream.
    init(stanzaBytesMax: Int) {
        self.stanzaBytesMax = stanzaBytesMax
        guard let parser = XML_ParserCreateNS("UTF-8", XML_Char(Self.separator)) else {
            fatalError("Out of memory for an XML parser.")
        }
        self.parser = parser
        // Don't let expat defer parsing: a stanza must be served with its last byte, because nothing more may come before
        // the answer. Rescanning stays cheap because tags are short (`XMPPLimits.tagBytesMax`).
        martlet_expat_parse_at_once(parser)
        XML_SetUserData(parser, Unmanaged.passUnretained(self).toOpaque())
        XML_SetElementHandler(
            parser,
            { own, name, attributes in
                guard let name, let attributes else { return }
                StanzaParser.from(own)?.began(name, attributes)
            }, { own, _ in StanzaParser.from(own)?.ended() })
        XML_SetCharacterDataHandler(parser) { own, text, count in
            guard let text else { return }
            let bytes = UnsafeRawBufferPointer(start: text, count: Int(count))
            StanzaParser.from(own)?.took(text: bytes)
        }
        XML_SetXmlDeclHandler(parser) { own, _, encoding, _ in
            StanzaParser.from(own)?.declared(encoding: encoding.map { String(cString: $0) })
        }
        XML_SetStartDoctypeDeclHandler(parser) { own, _, _, _, _ in
            StanzaParser.from(own)?.refuseMarkup()
        }
        XML_SetEntityDeclHandler(parser) { own, _, _, _, _, _, _, _, _ in
            StanzaParser.from(own)?.refuseMarkup()
        }
        XML_SetCommentHandler(parser) { own, _ in StanzaParser.from(own)?.refuseMarkup() }
        XML_SetProcessingInstructionHandler(parser) { own, _, _ in
            StanzaParser.from(own)?.refuseMarkup()
        }
    }

    deinit { XML_ParserFree(parser) }

    private static func from(_ own: UnsafeMutableRawPointer?) -> StanzaParser? {
        own.map { Unmanaged<StanzaParser>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Parses more bytes of the stream.
    /// - Returns: what the bytes completed, in order, and the fault after it, if there is one. Don't use the parser after
    ///   a fault.
    func parse(_ bytes: UnsafeRawBufferPointer) -> (events: [Event], fault: StreamError?) {
        guard !beginsAsUTF16(bytes) else { return ([], Self.notUTF8) }
        let isParsed =
            XML_Parse(
                parser, bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
                Int32(bytes.count), 0) == XML_STATUS_OK
        fedBytes += bytes.count
        if fault == nil, !isParsed { fault = Self.fault(of: XML_GetErrorCode(parser)) }
        if fault == nil, fedBytes - stanzaStart > stanzaBytesMax {
            fault = StreamError(
                .policyViolation, "A stanza is longer than \(stanzaBytesMax) bytes.")
        }
        if fault == nil, fedBytes - tagStart > XMPPLimits.tagBytesMax {
            fault = StreamError(
                .policyViolation, "A tag is longer than \(XMPPLimits.tagBytesMax) bytes.")
        }
        defer { events = [] }
        return (events, fault)
    }

    /// Whether the stream's first two bytes are those by which libexpat takes it for UTF-16, whatever the parser was told.
    /// Source: RFC 6120 §11.6.
    private func beginsAsUTF16(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.prefix(max(0, 2 - fedBytes)).enumerated().contains { index, byte in
            byte == 0 || (fedBytes + index == 0 && byte >= 0xFE)
        }
    }

    private static let notUTF8 = StreamError(.unsupportedEncoding, "A stream must be UTF-8.")

    // MARK: Callbacks of the parser

    /// Where the reported markup or text ends.
    private var position: Int {
        Int(XML_GetCurrentByteIndex(parser)) + Int(XML_GetCurrentByteCount(parser))
    }

    private func stop(_ error: StreamError) {
        guard fault == nil else { return }
        fault = error
        XML_StopParser(parser, XML_Bool(0))
    }

    private func refuseMarkup() {
        stop(
            StreamError(
                .restrictedXML,
                "A stream must not have declarations, comments or processing instructions."))
    }

    private func declared(encoding: String?) {
        tagStart = position
        guard let encoding, encoding.lowercased() != "utf-8" else { return }
        stop(Self.notUTF8)
    }

    private func began(
        _ name: UnsafePointer<XML_Char>,
        _ attributes: UnsafeMutablePointer<UnsafePointer<XML_Char>?>
    ) {
        guard fault == nil else { return }
        tagStart = position
        var element = Self.element(name)
        var index = 0
        while let key = attributes[index], let value = attributes[index + 1] {
            guard index / 2 < XMPPLimits.attributesMax else {
                return stop(
                    StreamError(
                        .policyViolation,
                        "An element has more than \(XMPPLimits.attributesMax) attributes."))
            }
            let named = Self.element(key)
            let place = named.namespace.isEmpty ? named.name : "\(named.namespace) \(named.name)"
            element.attributes[place] = String(cString: value)
            index += 2
        }
        guard isStreamOpen else {
            isStreamOpen = true
            stanzaStart = position
            return events.append(.opened(element))
        }
        if open.isEmpty { elementCount = 0 }
        elementCount += 1
        open.append(element)
        guard elementCount <= XMPPLimits.elementsMax, open.count < XMPPLimits.depthMax else {
            return stop(
                StreamError(
                    .policyViolation,
                    """
                    A stanza has more than \(XMPPLimits.elementsMax) elements, or more than \
                    \(XMPPLimits.depthMax) inside of each other.
                    """))
        }
    }

    private func ended() {
        guard fault == nil else { return }
        tagStart = position
        guard let element = open.popLast() else { return events.append(.closed) }
        guard open.isEmpty else { return open[open.count - 1].children.append(element) }
        stanzaStart = position
        events.append(.stanza(element))
    }

    private func took(text: UnsafeRawBufferPointer) {
        guard fault == nil else { return }
        tagStart = position
        guard !open.isEmpty else {
            // Whitespace between stanzas keeps a connection alive. Source: RFC 6120 §4.6.1.
            stanzaStart = position
            let isSpace = text.allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
            if !isSpace {
                stop(StreamError(.badFormat, "A stream must not have text between its stanzas."))
            }
            return
        }
        open[open.count - 1].text += String(decoding: text, as: UTF8.self)
    }

    private static func element(_ name: UnsafePointer<XML_Char>) -> StanzaElement {
        let text = String(cString: name)
        let parts = text.utf8.split(separator: separator, maxSplits: 1)
        guard parts.count == 2, let namespace = String(parts[0]), let local = String(parts[1])
        else { return StanzaElement(name: text, namespace: "") }
        return StanzaElement(name: local, namespace: namespace)
    }

    private static func fault(of code: XML_Error) -> StreamError {
        switch code {
        case XML_ERROR_UNKNOWN_ENCODING, XML_ERROR_INCORRECT_ENCODING: notUTF8
        case XML_ERROR_NO_MEMORY:
            StreamError(.resourceConstraint, "Out of memory for the stream.")
        default: StreamError(.notWellFormed, "The stream is not well-formed XML.")
        }
    }
}

@available(*, unavailable)
extension StanzaParser: Sendable {}
