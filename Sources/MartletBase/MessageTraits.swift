// SPDX-License-Identifier: Apache-2.0
//
// What a message was sent to, how urgent it is, which way a subscription goes: numbers that the
// wire, the store and the engine share. Rests on nothing.

/// The kinds of target a message can have, as SEND and DELIVER number them.
public enum TargetKind: UInt8, Sendable, CaseIterable, Hashable {
    case token = 1
    case topic = 2
    case condition = 3
}

/// How urgent a message is.
public enum MessagePriority: UInt8, Sendable, CaseIterable, Hashable {
    /// May wait until the device wakes.
    case normal = 1
    /// At once, even to a dozing device.
    case high = 2
}

/// What a change of subscriptions does.
public enum TopicOperation: UInt8, Sendable, CaseIterable, Hashable {
    case subscribe = 1
    case unsubscribe = 2
}
