// SPDX-License-Identifier: Apache-2.0
//
// Checks at start whether the kernel has the features that the transport needs. A missing feature is then reported
// in one sentence, instead of a strange error later. Rests on CLiburing.

internal import CLiburing
import MartletTransport

extension Ring {
    /// Throws `kernelTooOld` for a missing feature. Setup with DEFER_TASKRUN has succeeded, so the kernel is Linux
    /// 6.1 or newer and has multishot receive (6.0), provided buffer rings (5.19) and multishot accept (5.19). The
    /// function checks for features that a vendor's kernel or a restriction may still lack.
    static func requireFeatures(_ control: UnsafeMutablePointer<io_uring>) throws(TransportError) {
        let features: [(bit: UInt32, name: String)] = [
            (IORING_FEAT_NODROP, "completions kept on overflow (NODROP)"),
            (IORING_FEAT_SUBMIT_STABLE, "stable submissions (SUBMIT_STABLE)"),
            (IORING_FEAT_FAST_POLL, "internal polling (FAST_POLL)"),
            (IORING_FEAT_EXT_ARG, "waiting with a timeout (EXT_ARG)"),
            (IORING_FEAT_CQE_SKIP, "silent success (CQE_SKIP)"),
        ]
        for feature in features where control.pointee.features & feature.bit == 0 {
            throw .kernelTooOld(missing: "io_uring's \(feature.name)")
        }
        guard let probe = io_uring_get_probe_ring(control) else {
            throw .kernelTooOld(missing: "io_uring's list of operations (REGISTER_PROBE)")
        }
        defer { io_uring_free_probe(probe) }
        let operations: [(code: io_uring_op, name: String)] = [
            (IORING_OP_ACCEPT, "ACCEPT"), (IORING_OP_RECV, "RECV"), (IORING_OP_SEND, "SEND"),
            (IORING_OP_SENDMSG, "SENDMSG"), (IORING_OP_READ, "READ"),
            (IORING_OP_SHUTDOWN, "SHUTDOWN"), (IORING_OP_CLOSE, "CLOSE"),
            (IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"), (IORING_OP_TIMEOUT, "TIMEOUT"),
            (IORING_OP_MSG_RING, "MSG_RING"),
        ]
        for operation in operations
        where io_uring_opcode_supported(probe, Int32(operation.code.rawValue)) == 0 {
            throw .kernelTooOld(missing: "io_uring's operation \(operation.name)")
        }
    }
}
