// SPDX-License-Identifier: Apache-2.0
//
// `import MartletBridge` imports the broker as well.

@_exported public import Martlet
