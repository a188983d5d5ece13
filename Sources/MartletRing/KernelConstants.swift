// SPDX-License-Identifier: Apache-2.0
//
// Constants of the kernel's io_uring interface that the header of liburing 2.3 lacks, or defines in a form that
// Swift cannot import. Source: include/uapi/linux/io_uring.h of Linux. Rests on CLiburing.

internal import CLiburing

enum Kernel {
    /// IOSQE_*: shifts by enum constants, which Swift's importer skips.
    static let fixedFile = UInt8(1 << IOSQE_FIXED_FILE_BIT)
    static let bufferSelect = UInt8(1 << IOSQE_BUFFER_SELECT_BIT)
    static let skipSuccess = UInt8(1 << IOSQE_CQE_SKIP_SUCCESS_BIT)

    /// IORING_FEAT_RW_ATTR, Linux 6.14. Martlet does not use attributes. The bit proves a kernel newer than 6.13,
    /// the version that gave each direct descriptor a reference count of its own.
    static let featureReadWriteAttributes: UInt32 = 1 << 16

    /// IORING_MAX_FIXED_FILES: the largest table of direct descriptors.
    static let fixedFilesMax = 1 << 20

    /// UIO_MAXIOV: the largest number of vectors in one sendmsg.
    static let vectorsMax = 1024

    /// The only group of provided buffers of a ring.
    static let receiveBufferGroup: UInt16 = 0
}
