// SPDX-License-Identifier: Apache-2.0
//
// `import Martlet` is the only import of an embedder: messages, requests, answers, reports, errors and limits come
// along, and the frames of the protocol do not.

@_exported public import MartletBase
@_exported public import struct MartletCommitter.AcceptedMessage
@_exported public import struct MartletCommitter.DeliveryProgress
@_exported public import enum MartletCommitter.ProjectEvent
@_exported public import struct MartletCommitter.ProjectSums
@_exported public import struct MartletCrypto.TLSCredentials
@_exported public import enum MartletCrypto.TLSSetupError
@_exported public import struct MartletThreads.BrokerStatistics
@_exported public import class MartletThreads.PrometheusRegistry
@_exported public import protocol MartletWire.AdministratorInterface
@_exported public import struct MartletWire.AudienceSummary
@_exported public import struct MartletWire.CancelSummary
@_exported public import struct MartletWire.ConditionExplanation
@_exported public import struct MartletWire.DeviceMessage
@_exported public import struct MartletWire.FanoutSummary
@_exported public import struct MartletWire.GroupDetails
@_exported public import struct MartletWire.Message
@_exported public import enum MartletWire.MessageID
@_exported public import enum MartletWire.MessageTarget
@_exported public import struct MartletWire.OutgoingMessage
@_exported public import struct MartletWire.RequestPort
@_exported public import struct MartletWire.SendReceipt
@_exported public import protocol MartletWire.SenderInterface
@_exported public import struct MartletWire.TokenResults
@_exported public import struct MartletWire.TopicChangeSummary
