// SPDX-License-Identifier: Apache-2.0
//
// Numbers of the kernel's io_uring interface that liburing 2.3's header lacks or spells so that
// Swift cannot import them. Source: include/uapi/linux/io_uring.h of Linux. Rests on CLiburing.

internal import CLiburing

enum Kernel {
    /// IOSQE_*: shifts by enum constants, which the importer skips.
    static let fixedFile = UInt8(1 << IOSQE_FIXED_FILE_BIT)
    static let bufferSelect = UInt8(1 << IOSQE_BUFFER_SELECT_BIT)
    static let skipSuccess = UInt8(1 << IOSQE_CQE_SKIP_SUCCESS_BIT)

    /// IORING_FEAT_RW_ATTR, Linux 6.14. Martlet does not use attributes; the bit says that the kernel
    /// is newer than 6.13, where each direct descriptor got a reference count of its own.
    static let featureReadWriteAttributes: UInt32 = 1 << 16

    /// IORING_MAX_FIXED_FILES, the size of the largest table of direct descriptors.
    static let fixedFilesMax = 1 << 20

    /// UIO_MAXIOV, the most vectors of one sendmsg.
    static let vectorsMax = 1024

    /// The one group of provided buffers of a ring.
    static let receiveBufferGroup: UInt16 = 0
}
