// SPDX-License-Identifier: Apache-2.0
//
// A device's state in a file: one line of JSON. A save writes the whole file or leaves the old file. Only the
// file's owner can read the file, because the file has the device key. Rests on POSIX files.

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

/// Keeps a device's state in a file. Two devices must not use one file at a time.
public struct DeviceStateFile: DeviceStateStore {
    /// Longest file that `load` accepts. A state has at most 1024 stream IDs, and topics of at most 900 bytes each.
    private static let bytesMax = 16 << 20

    public let path: String

    public init(path: String) { self.path = path }

    public func load() throws(MartletError) -> StoredDevice? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("read")
        }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= Self.bytesMax {
            let count = unsafe read(descriptor, &part, part.count)
            guard count >= 0 else { throw failure("read") }
            guard count > 0 else { break }
            bytes += part.prefix(count)
        }
        guard let device = StoredDevice(json: String(decoding: bytes, as: UTF8.self)) else {
            throw MartletError(
                .invalidArgument,
                "'\(path)' cannot be read as a device's state. Remove it to register anew, or name "
                    + "another file.", field: "state")
        }
        return device
    }

    public func save(_ device: StoredDevice) throws(MartletError) {
        let bytes = Array((device.json + "\n").utf8)
        let temporary = path + ".new"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("written") }
        var isWritten = true
        var rest = bytes[...]
        while isWritten, !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes {
                unsafe write(descriptor, $0.baseAddress, $0.count)
            }
            isWritten = count > 0
            rest = rest.dropFirst(max(0, count))
        }
        let isSynced = fsync(descriptor) == 0
        close(descriptor)
        guard isWritten, isSynced, unsafe rename(temporary, path) == 0 else {
            throw failure("written")
        }
    }

    public func remove() throws(MartletError) {
        guard unsafe unlink(path) == 0 || errno == ENOENT else { throw failure("removed") }
    }

    private func failure(_ what: String) -> MartletError {
        let reason = unsafe String(cString: strerror(errno))
        return MartletError(
            .unavailable, "'\(path)' cannot be \(what) (\(reason)). Name another file.",
            field: "state")
    }
}
