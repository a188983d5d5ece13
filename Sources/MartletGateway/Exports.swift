// SPDX-License-Identifier: Apache-2.0
//
// `import MartletGateway` brings the broker along.

@_exported public import Martlet
