// SPDX-License-Identifier: Apache-2.0
//
// Reads the holder, the app and the platform out of an instance's record, without decoding the record. Each
// acknowledgement and each reading of a mailbox needs these fields. `InstanceLedger` reads and writes the whole record.
// Rests on RecordBytes.
//
//   24 bytes token ‖ 32 bytes digest of the device key ‖ i64 registered ‖ u32 app ‖ u32 platform ‖ …

package import MartletBase

/// A value of the table `instances`.
package enum InstanceRow {
    /// The holder: the first word of the digest.
    package static func holder(_ bytes: UnsafeRawBufferPointer) throws(StorageError) -> Holder {
        guard bytes.count >= Limits.tokenRandomBytes + 8 else {
            throw RecordReader(bytes, of: .instances).damaged()
        }
        return Holder(digestStart: bytes.loadBigEndian(UInt64.self, at: Limits.tokenRandomBytes))
    }

    package static func app(
        _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> (number: AppNumber, platform: Platform) {
        var reader = RecordReader(bytes, of: .instances)
        _ = try reader.bytes(Limits.tokenRandomBytes + 32 + 8)
        let number = AppNumber(try reader.read(UInt32.self))
        let platform = UInt8(truncatingIfNeeded: try reader.read(UInt32.self))
        guard let platform = Platform(rawValue: platform) else { throw reader.damaged() }
        return (number, platform)
    }
}
