// SPDX-License-Identifier: Apache-2.0
//
// A device's state in a file: one line of JSON. A save writes the whole file or leaves the old file. Only the
// file's owner can read the file, because the file has the device key. Rests on PrivateFile and EditedText.

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#else
    import Glibc
#endif
public import MartletBase
import MartletFiles

/// Keeps a device's state in a file. Two devices must not use one file at a time.
public struct DeviceStateFile: DeviceStateStore {
    /// Longest file that `load` accepts. A state has at most 1024 stream IDs, and topics of at most 900 bytes each.
    private static let bytesMax = 16 << 20

    /// Path of the file. A save writes `path` with `.new` appended first, in the same folder.
    public let path: String

    /// Names the file. The file need not exist, and nothing is read or written yet.
    public init(path: String) { self.path = path }

    /// Reads the file.
    /// - Returns: nil if there is no file.
    /// - Throws: `UNAVAILABLE` if the file cannot be read, `INVALID_ARGUMENT` if the content is no state of a device.
    public func load() throws(MartletError) -> StoredDevice? {
        let file: EditedText
        do throws(PrivateFile.Failure) {
            file = try EditedText(contentsOf: path, bytesMax: Self.bytesMax)
        } catch {
            if error.code == ENOENT { return nil }
            throw failure("read", error.text)
        }
        guard let device = StoredDevice(json: String(decoding: file.bytes, as: UTF8.self)) else {
            throw MartletError(
                .invalidArgument,
                "'\(path)' cannot be read as a device's state. Remove it to register anew, or name "
                    + "another file.", field: "state")
        }
        return device
    }

    /// Replaces the file, and returns when the content is on disk. After an error the file has the
    /// old or the new content, never a part.
    /// - Throws: `UNAVAILABLE` if the file cannot be written.
    public func save(_ device: StoredDevice) throws(MartletError) {
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(path, with: Array((device.json + "\n").utf8))
        } catch {
            throw failure("written", error.text)
        }
    }

    /// Removes the file. A missing file is no error.
    /// - Throws: `UNAVAILABLE` if the file cannot be removed.
    public func remove() throws(MartletError) {
        guard unsafe unlink(path) == 0 || errno == ENOENT else { throw failure("removed") }
    }

    private func failure(_ what: String, _ reason: String? = nil) -> MartletError {
        let reason = unsafe reason ?? String(cString: strerror(errno))
        return MartletError(
            .unavailable, "'\(path)' cannot be \(what) (\(reason)). Name another file.",
            field: "state")
    }
}
