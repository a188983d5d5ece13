// SPDX-License-Identifier: Apache-2.0
//
// `import MartletGateway` imports the broker as well.

@_exported public import Martlet
