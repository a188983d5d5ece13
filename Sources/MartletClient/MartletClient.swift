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
// The module re-exports the vocabulary of messages and errors, so an application needs no other import.

@_exported public import MartletBase
@_exported public import MartletWire
