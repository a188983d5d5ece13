// SPDX-License-Identifier: Apache-2.0
//
// `import MartletXMPP` imports the gateway and the broker as well.

@_exported public import MartletGateway
