// SPDX-License-Identifier: Apache-2.0
//
// `import Martlet` is the only import of an embedder: messages, errors and limits come along.

@_exported public import MartletBase
@_exported public import MartletWire
