// SPDX-License-Identifier: Apache-2.0
//
// What a device keeps between two runs: who it is, what it has taken, and the topics it asked for.
// Written whole or not at all, readable by its owner alone, because it holds the device key. Rests on
// POSIX files.

import FoundationEssentials
import Glibc
import Martlet
import MartletClient

struct KeptDevice: Codable {
    var project: String
    var app: String
    var platform: String
    var token: String
    var deviceKey: String
    /// Stream IDs of messages that were taken and may come again.
    var unconfirmed: [UInt64]
    /// DEV-2; a file of an earlier version has none.
    var topics: AskedTopics?

    var credentials: DeviceCredentials {
        DeviceCredentials(projectID: project, token: token, deviceKey: deviceKey)
    }
}

struct DeviceStateFile {
    let path: String

    /// nil where there is no file yet.
    func read() throws(MartletError) -> KeptDevice? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        do {
            return try JSONDecoder().decode(
                KeptDevice.self, from: try Data(contentsOf: URL(filePath: path)))
        } catch {
            throw MartletError(
                .invalidArgument,
                "'\(path)' cannot be read as a device's state. Remove it to register anew, or name "
                    + "another file.", field: "state")
        }
    }

    func write(_ state: KeptDevice) throws(MartletError) {
        let bytes = Array((JSON.line(state) + "\n").utf8)
        let temporary = path + ".new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure }
        let isWritten = Glibc.write(descriptor, bytes, bytes.count) == bytes.count
        let isSynced = fsync(descriptor) == 0
        close(descriptor)
        guard isWritten, isSynced, rename(temporary, path) == 0 else { throw failure }
    }

    private var failure: MartletError {
        MartletError(
            .unavailable,
            "'\(path)' cannot be written (\(String(cString: strerror(errno)))). Name another file.",
            field: "state")
    }
}

extension DeviceStateFile {
    /// REG-4: asks for another token, and keeps it.
    func rotate(host: String, port: Int) async throws -> String {
        guard var known = try read() else {
            throw MartletError(
                .notFound, "There is no '\(path)'; `martlet listen` makes one.", field: "state")
        }
        let device = MartletDevice(
            host: host, port: port, credentials: known.credentials, unconfirmed: known.unconfirmed)
        do {
            known.token = try await device.rotateToken()
            // What came meanwhile is not taken and comes again.
            await device.close()
        } catch {
            await device.close()
            throw error
        }
        try write(known)
        return known.token
    }
}
