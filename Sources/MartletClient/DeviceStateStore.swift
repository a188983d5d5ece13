// SPDX-License-Identifier: Apache-2.0
//
// The store of the state that the next run of a device needs. An application with its own storage implements the
// protocol; other applications use `DeviceStateFile`.

/// A store for the state of one device. The device calls the functions one at a time, on a thread that may block.
public protocol DeviceStateStore: Sendable {
    /// Returns the last saved state; nil if the store has no state.
    func load() throws -> StoredDevice?

    /// Replaces the saved state, and returns when the new state is kept. After an error the old state must still be
    /// there.
    func save(_ device: StoredDevice) throws

    /// Removes the state, because the device is no longer registered. `load` then returns nil until the next
    /// `save`.
    func remove() throws
}
