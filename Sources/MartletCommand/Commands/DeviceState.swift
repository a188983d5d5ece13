// SPDX-License-Identifier: Apache-2.0
//
// What a device keeps between two runs: who it is, and what it has taken. Written whole or not at
// all, readable by its owner alone, because it holds the device key. Rests on POSIX files.

import FoundationEssentials
import Glibc
import Martlet
import MartletClient

struct DeviceState: Codable {
    var project: String
    var app: String
    var platform: String
    var token: String
    var deviceKey: String
    /// Every message up to here was taken.
    var receivedThrough: UInt64

    var credentials: DeviceCredentials {
        DeviceCredentials(projectID: project, token: token, deviceKey: deviceKey)
    }
}

struct DeviceStateFile {
    let path: String

    /// nil where there is no file yet.
    func read() throws(MartletError) -> DeviceState? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        do {
            return try JSONDecoder().decode(
                DeviceState.self, from: try Data(contentsOf: URL(filePath: path)))
        } catch {
            throw MartletError(
                .invalidArgument,
                "'\(path)' cannot be read as a device's state. Remove it to register anew, or name "
                    + "another file.", field: "state")
        }
    }

    func write(_ state: DeviceState) throws(MartletError) {
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
