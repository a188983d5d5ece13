// SPDX-License-Identifier: Apache-2.0
//
// Reads the holder, the app, the platform and the tokens out of an instance's record, without decoding the record. Each
// acknowledgement and each reading of a mailbox needs the first three, and a check needs the others of millions of
// records. `InstanceLedger` reads and writes the whole record. Rests on RecordBytes.
//
//   24 bytes token ‖ 32 bytes digest of the device key ‖ i64 registered ‖ u32 app ‖ u32 platform ‖ u64 sequence ‖
//   former tokens of 24 bytes

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

    /// The app and the tokens of a record of valid size, borrowed.
    package struct Tokens {
        private static let appOffset = Limits.tokenRandomBytes + 32 + 8
        private static let formerOffset = appOffset + 4 + 4 + 8

        private let record: UnsafeRawBufferPointer
        /// Number of the app.
        package let app: AppNumber
        /// Platform of the app.
        package let platform: Platform

        /// nil for a record that cannot be read.
        package init?(_ record: UnsafeRawBufferPointer) {
            guard record.count >= Self.formerOffset,
                (record.count - Self.formerOffset) % Limits.tokenRandomBytes == 0,
                let platform = Platform(rawValue: record[Self.appOffset + 4])
            else { return nil }
            self.record = record
            self.platform = platform
            app = AppNumber(record.loadLittleEndian(UInt32.self, at: Self.appOffset))
        }

        /// The 24 bytes of the token.
        package var token: UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(rebasing: record[..<Limits.tokenRandomBytes])
        }

        /// The number of tokens before rotations.
        package var formerCount: Int {
            (record.count - Self.formerOffset) / Limits.tokenRandomBytes
        }

        /// The 24 bytes of a token before a rotation, the oldest first.
        package func former(at index: Int) -> UnsafeRawBufferPointer {
            let start = Self.formerOffset + index * Limits.tokenRandomBytes
            return UnsafeRawBufferPointer(
                rebasing: record[start..<(start + Limits.tokenRandomBytes)])
        }
    }
}
