// SPDX-License-Identifier: Apache-2.0
//
// Where a device keeps what the next run needs. An application that has a place for its state
// supplies that; for the others there is `DeviceStateFile`.

/// A place for one device's state. Its functions are called on a thread that may wait, one at a
/// time.
public protocol DeviceStateStore: Sendable {
    /// What was saved last; nil where nothing was.
    func load() throws -> StoredDevice?

    /// Returns when it is kept, in place of what was kept before; or throws, and that is still
    /// there.
    func save(_ device: StoredDevice) throws

    /// The device is not registered any more: `load` returns nil until the next `save`.
    func remove() throws
}
