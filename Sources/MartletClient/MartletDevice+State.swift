// SPDX-License-Identifier: Apache-2.0
//
// The state that a device keeps between two runs of its application (DEV-1, DEV-2, TTL-4): credentials, wishes
// about topics, and the taken messages. A change that the broker will be told about is saved before the broker is
// told; other changes are saved soon. Files are slow, so a thread of NIO's pool writes them. At most one write runs
// at a time, and a write includes all changes until it begins.

public import MartletBase
import NIOCore
import NIOPosix

extension MartletDevice {
    /// DEV-1, DEV-2: opens the device that `store` keeps, or registers a new device and saves it. The device writes
    /// the store whenever the token, the wishes about topics or the taken messages change. After an end with
    /// UNREGISTERED the device no longer exists: remove the state from the store, and open again.
    /// - Throws: `INVALID_ARGUMENT` if the store has a device of another project, app or platform.
    public static func open(
        host: String, port: Int = Limits.defaultPort, projectID: String, appName: String,
        platform: Platform, store: any DeviceStateStore, deviceState: DeviceState = .active,
        options: DeviceOptions = DeviceOptions()
    ) async throws -> MartletDevice {
        let stored = try await stored(
            host: host, port: port, projectID: projectID, appName: appName, platform: platform,
            store: store, options: options)
        return MartletDevice(
            host: host, port: port, stored: stored, store: store, deviceState: deviceState,
            options: options)
    }

    /// Opens a device on a shared connection. Registration of a new device uses a separate connection. See
    /// `open(host:port:projectID:appName:platform:store:deviceState:options:)` for the store.
    public static func open(
        on connection: DeviceConnection, projectID: String, appName: String, platform: Platform,
        store: any DeviceStateStore, deviceState: DeviceState = .active,
        options: DeviceOptions = DeviceOptions()
    ) async throws -> MartletDevice {
        let stored = try await stored(
            host: connection.host, port: connection.port, projectID: projectID, appName: appName,
            platform: platform, store: store, options: options)
        return MartletDevice(
            on: connection, stored: stored, store: store, deviceState: deviceState,
            options: options)
    }

    private static func stored(
        host: String, port: Int, projectID: String, appName: String, platform: Platform,
        store: any DeviceStateStore, options: DeviceOptions
    ) async throws -> StoredDevice {
        if let known = try await NIOThreadPool.singleton.runIfActive({ try store.load() }) {
            guard known.credentials.projectID == projectID, known.appName == appName,
                known.platform == platform
            else {
                throw MartletError(
                    .invalidArgument,
                    "The stored device is of project \(known.credentials.projectID), app "
                        + "\(known.appName) on \(known.platform.name). Give these, or use another "
                        + "store.", field: "state")
            }
            return known
        }
        let credentials = try await register(
            host: host, port: port, projectID: projectID, appName: appName, platform: platform,
            options: options)
        let new = StoredDevice(credentials: credentials, appName: appName, platform: platform)
        try await NIOThreadPool.singleton.runIfActive { try store.save(new) }
        return new
    }

    /// Saves the present state, including all messages taken so far, and returns when the store has it. Returns at
    /// once without a store. Usually an application need not call `save()`, because the device saves a taken
    /// message when it tells the broker. A call before the application may be killed prevents repeated delivery of
    /// taken messages.
    public func save() async throws {
        guard keeper != nil else { return }
        let save: Task<Void, any Error>
        if let nextSave {
            save = nextSave
        } else {
            let last = lastSave
            save = Task {
                _ = await last?.result
                try await self.write()
            }
            nextSave = save
        }
        try await save.value
    }

    /// Saves without reporting errors. The next call of `save()` reports a lasting error.
    func saveSoon() {
        guard keeper != nil, nextSave == nil else { return }
        Task { try? await self.save() }
    }

    /// Removes the state from the store after the device has been unregistered.
    func forgetState() async throws {
        guard let store = keeper?.store else { return }
        keeper = nil
        _ = await lastSave?.result
        try await NIOThreadPool.singleton.runIfActive { try store.remove() }
    }

    private func write() async throws {
        lastSave = nextSave
        nextSave = nil
        guard let keeper else { return }
        var stored = keeper.stored
        stored.credentials = credentials
        stored.unconfirmed = unconfirmed
        stored.topics = askedTopics
        let now = stored
        let store = keeper.store
        guard now != keeper.stored else { return }
        try await NIOThreadPool.singleton.runIfActive { try store.save(now) }
        self.keeper?.stored = now
    }
}

/// The store of a device's state, and the state that the store has.
struct StateKeeper: Sendable {
    let store: any DeviceStateStore
    var stored: StoredDevice
}
