// SPDX-License-Identifier: Apache-2.0
//
// `import Martlet` is the only import of an embedder: messages, reports, errors and limits come along, and the frames
// of the protocol do not.

@_exported public import MartletBase
@_exported public import enum MartletWire.JSONValue
@_exported public import struct MartletWire.Message
@_exported public import enum MartletWire.MessageID
@_exported public import enum MartletWire.MessageTarget
@_exported public import struct MartletWire.OutgoingMessage
@_exported public import struct MartletWire.TokenResults
