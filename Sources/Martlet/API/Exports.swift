// SPDX-License-Identifier: Apache-2.0
//
// `import Martlet` is all that an embedder writes: messages, errors and limits come along.

@_exported public import MartletBase
@_exported public import MartletWire
