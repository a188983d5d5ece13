// SPDX-License-Identifier: Apache-2.0
//
// Martlet's client libraries: `MartletDevice` receives, `MartletSender` sends, and
// `MartletAdministrator` looks after projects and keys. They are built on SwiftNIO and link no C
// engine, so they run wherever Swift runs (DEV-6). In reading order:
//
//   Backoff, DeliveryLedger, RequestTable, TopicWishes, Heartbeat, HeartbeatPace
//                                                      decide; no socket, no clock
//   ConnectionHandler, Dialer                          do; one connection on its event loop
//   DeviceStateFile                                    does; what a device keeps between two runs
//   DeviceConnection                                   one connection of several devices
//   RequestClient, MartletDevice                       actors that live on that event loop, so that
//                                                      a frame costs neither a lock nor a hop
//
// The vocabulary of messages and errors is re-exported: who imports this module needs no other.

@_exported public import MartletBase
@_exported public import MartletWire
