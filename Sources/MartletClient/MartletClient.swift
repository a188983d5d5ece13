// SPDX-License-Identifier: Apache-2.0
//
// Martlet's client libraries: `MartletDevice` receives messages, `MartletSender` sends messages, and
// `MartletAdministrator` manages projects and keys. The libraries are built on SwiftNIO and link no C engine, so
// they run wherever Swift runs (DEV-6). In reading order:
//
//     Backoff, DeliveryLedger, RequestTable,
//     TopicWishes, Heartbeat, HeartbeatPace     decisions, without socket and clock
//     ConnectionHandler, Dialer                 one connection on its event loop
//     DeviceStateFile                           the state that a device keeps between two runs
//     DeviceConnection                          one connection of several devices
//     RequestClient, MartletDevice              actors on the connection's event loop, so a frame
//                                               needs neither a lock nor a change of threads
//
// The module re-exports the vocabulary of messages, requests, answers and errors, so an application needs no other
// import. The frames of the protocol stay behind.

@_exported public import MartletBase
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
