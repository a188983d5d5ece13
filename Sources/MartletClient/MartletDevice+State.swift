// SPDX-License-Identifier: Apache-2.0
//
// What a device keeps between two runs of its application (DEV-1, DEV-2, TTL-4): who it is, the
// topics it was asked for, and what it has taken. A change that the broker is to be told of is kept
// before that; the rest is kept soon. Files are slow, so they are written on a thread of NIO's
// pool, one write at a time, and each takes along every change until it begins.

public import MartletBase
import NIOCore
import NIOPosix

extension MartletDevice {
    /// DEV-1, DEV-2: the device that `store` keeps, or a new one, registered and kept there. The
    /// store is written whenever the token, the topics that were asked for or the messages that
    /// were taken change. A device that ends with UNREGISTERED is not one any more: remove it from
    /// the store, and open anew.
    /// - Throws: `INVALID_ARGUMENT` where the store has a device of another project, app or platform.
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

    /// `open(host:port:projectID:appName:platform:store:deviceState:options:)` for one of several
    /// apps on a connection. It is registered over one of its own.
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

    /// Returns when the store has what holds now, messages taken until now included; at once where
    /// there is no store. An application need not call it: a message that it has taken is kept when
    /// the broker is told so. It may, to be sure that what it took does not come twice if it is
    /// killed.
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

    /// Says nothing if that fails: whatever is asked for next says it.
    func saveSoon() {
        guard keeper != nil, nextSave == nil else { return }
        Task { try? await self.save() }
    }

    /// The device is registered no more.
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

/// Where a device's state is kept, and what is there.
struct StateKeeper: Sendable {
    let store: any DeviceStateStore
    var stored: StoredDevice
}
