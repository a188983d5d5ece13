// SPDX-License-Identifier: Apache-2.0
//
// `import MartletWebPush` imports the gateway and the broker as well.

@_exported public import MartletGateway
