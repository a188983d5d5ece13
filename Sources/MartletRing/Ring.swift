// SPDX-License-Identifier: Apache-2.0
//
// The owner of one io_uring: the two shared rings and the system call between them. liburing maps and registers;
// submission and completion access the mapped words directly, at 1 ns per operation. The ring's flags:
//
// - SINGLE_ISSUER, DEFER_TASKRUN: one thread uses the ring, and the kernel processes completions when that thread
//   enters, instead of in an interrupt. Completions therefore appear only inside `enter`, and the ring must be
//   created on the thread that uses the ring. (COOP_TASKRUN is implied.)
// - TASKRUN_FLAG: the kernel announces waiting work in shared memory, so polling costs no call.
// - SUBMIT_ALL: an operation that fails at once does not hold back the rest of the batch.
// - CQSIZE, CLAMP: the completion ring has a configured size.
//
// When the completion ring is full, the kernel keeps completions in its own memory (NODROP). The next `enter` with
// GETEVENTS moves them to the ring; every `enter` after an empty ring uses GETEVENTS. Rests on CLiburing.

internal import CLiburing
internal import Glibc
import MartletTransport

struct Ring: ~Copyable {
    private let control: UnsafeMutablePointer<io_uring>
    private let waitArguments: UnsafeMutablePointer<io_uring_getevents_arg>
    private let waitTime: UnsafeMutablePointer<__kernel_timespec>
    private let enterDescriptor: UInt32
    private let enterFlags: UInt32

    private let submissions: UnsafeMutablePointer<io_uring_sqe>
    private let submissionHead: UnsafeMutablePointer<UInt32>
    private let submissionTail: UnsafeMutablePointer<UInt32>
    private let submissionFlags: UnsafeMutablePointer<UInt32>
    private let submissionMask: UInt32
    private var submissionTailLocal: UInt32

    private let completions: UnsafeMutablePointer<io_uring_cqe>
    private let completionHead: UnsafeMutablePointer<UInt32>
    private let completionTail: UnsafeMutablePointer<UInt32>
    private let completionMask: UInt32
    private var completionHeadLocal: UInt32

    /// The kernel's IORING_FEAT_* bits.
    let features: UInt32
    /// The ring's own descriptor: the target of messages from other rings.
    var descriptor: Int32 { control.pointee.ring_fd }
    var submissionCapacity: Int { Int(submissionMask) + 1 }

    init(submissionEntries: Int, completionEntries: Int) throws(TransportError) {
        var parameters = io_uring_params()
        parameters.flags =
            IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG
            | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP
        parameters.cq_entries = UInt32(completionEntries)
        let control = UnsafeMutablePointer<io_uring>.allocate(capacity: 1)
        control.initialize(to: io_uring())
        let result = io_uring_queue_init_params(UInt32(submissionEntries), control, &parameters)
        guard result == 0 else {
            control.deallocate()
            throw TransportError.setup("io_uring_setup", errno: -result)
        }
        // Registration saves looking up the descriptor at each call. A failure costs only the saving, unless a filter
        // denies io_uring_register: later steps need the call.
        let registered = io_uring_register_ring_fd(control)
        do throws(TransportError) {
            if registered == -EPERM || registered == -EACCES {
                throw TransportError.setup("io_uring_register", errno: -registered)
            }
            try Self.requireFeatures(control)
        } catch {
            io_uring_queue_exit(control)
            control.deallocate()
            throw error
        }
        let isRegistered = registered == 1

        self.control = control
        waitArguments = .allocate(capacity: 1)
        waitArguments.initialize(to: io_uring_getevents_arg())
        waitTime = .allocate(capacity: 1)
        waitTime.initialize(to: __kernel_timespec())
        enterDescriptor = UInt32(control.pointee.enter_ring_fd)
        enterFlags = isRegistered ? IORING_ENTER_REGISTERED_RING : 0
        features = control.pointee.features

        let sq = control.pointee.sq
        submissions = sq.sqes
        submissionHead = sq.khead
        submissionTail = sq.ktail
        submissionFlags = sq.kflags
        submissionMask = sq.ring_mask
        submissionTailLocal = sq.ktail.pointee
        for slot in 0..<sq.ring_entries { sq.array[Int(slot)] = slot }

        let cq = control.pointee.cq
        completions = cq.cqes
        completionHead = cq.khead
        completionTail = cq.ktail
        completionMask = cq.ring_mask
        completionHeadLocal = cq.khead.pointee
    }

    deinit {
        io_uring_queue_exit(control)
        control.deallocate()
        waitArguments.deallocate()
        waitTime.deallocate()
    }

    /// Gives a registration access to liburing's handle.
    borrowing func withControl<R>(_ body: (UnsafeMutablePointer<io_uring>) -> R) -> R {
        body(control)
    }

    // MARK: Submission

    /// The number of operations that the kernel has not taken yet.
    private var queuedCount: UInt32 {
        submissionTailLocal &- martlet_load_relaxed_u32(submissionHead)
    }

    /// The next free entry; the caller fills the entry before the next call. A full ring is submitted first, so the
    /// call always succeeds.
    @inline(__always)
    mutating func nextSubmission() -> UnsafeMutablePointer<io_uring_sqe> {
        if queuedCount > submissionMask { submitAll(but: submissionMask) }
        let entry = submissions + Int(submissionTailLocal & submissionMask)
        submissionTailLocal &+= 1
        return entry
    }

    /// An entry's index in the ring. Two queued operations never share an index, so the index can address memory
    /// that must live until submission.
    @inline(__always)
    func place(of entry: UnsafeMutablePointer<io_uring_sqe>) -> Int { entry - submissions }

    /// Submits until at most `rest` operations are queued.
    @inline(never)
    private mutating func submitAll(but rest: UInt32) {
        // The kernel leaves operations behind only when memory is short. A lost operation would leave its
        // connection hanging forever, so the loop retries for 10 s.
        for _ in 0..<10_000 {
            martlet_store_release_u32(submissionTail, submissionTailLocal)
            let result = io_uring_enter2(
                enterDescriptor, queuedCount, 0, enterFlags, nil, 0)
            if queuedCount <= rest { return }
            precondition(
                result >= 0 || result == -EAGAIN || result == -EBUSY || result == -EINTR,
                "io_uring_enter failed: \(TransportError.entering(errno: -result))")
            usleep(1000)
        }
        fatalError("The kernel has taken no operation for 10 s: it is out of memory.")
    }

    /// Submits the queued operations and waits for a completion or the timeout (nil: no timeout, 0: no waiting).
    mutating func enter(timeoutMicroseconds: Int?) throws(TransportError) {
        let queued = queuedCount
        if timeoutMicroseconds == 0, queued == 0, !isWorkWaiting { return }
        martlet_store_release_u32(submissionTail, submissionTailLocal)

        var flags = enterFlags | IORING_ENTER_GETEVENTS
        var argument: UnsafeMutableRawPointer?
        var argumentBytes = 0
        if let timeoutMicroseconds, timeoutMicroseconds > 0 {
            waitTime.pointee.tv_sec = Int64(timeoutMicroseconds / 1_000_000)
            waitTime.pointee.tv_nsec = Int64(timeoutMicroseconds % 1_000_000) * 1000
            waitArguments.pointee.ts = UInt64(UInt(bitPattern: waitTime))
            flags |= IORING_ENTER_EXT_ARG
            argument = UnsafeMutableRawPointer(waitArguments)
            argumentBytes = MemoryLayout<io_uring_getevents_arg>.size
        }
        let result = io_uring_enter2(
            enterDescriptor, queued, timeoutMicroseconds == 0 ? 0 : 1, flags,
            argument?.assumingMemoryBound(to: sigset_t.self), argumentBytes)
        switch -result {
        // Success, timeout, a signal, or a kernel that has no memory at the moment.
        case ...0, ETIME, EINTR, EAGAIN, EBUSY: break
        case let errno: throw TransportError.entering(errno: errno)
        }
        // After the call the caller reuses the memory of queued operations (vectors, headers), so none may stay
        // queued.
        if queuedCount > 0 { submitAll(but: 0) }
    }

    /// Whether the kernel holds completions that reach the ring only through a call.
    private var isWorkWaiting: Bool {
        let flags = martlet_load_relaxed_u32(submissionFlags)
        return flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW) != 0
    }

    /// Whether the loop has taken every completion that the kernel has announced.
    var hasToldAll: Bool {
        martlet_load_acquire_u32(completionTail) == completionHeadLocal
            && martlet_load_relaxed_u32(submissionFlags) & IORING_SQ_CQ_OVERFLOW == 0
    }

    // MARK: Completion

    /// Wrapping count of the completions so far.
    var completionCount: UInt32 { martlet_load_acquire_u32(completionTail) }

    /// The newest completion in the ring; nil if the ring is empty.
    var newestCompletion: Completion? {
        let tail = completionCount
        return tail == completionHeadLocal ? nil : completion(at: tail &- 1)
    }

    @inline(__always)
    private func completion(at number: UInt32) -> Completion {
        let entry = completions + Int(number & completionMask)
        return Completion(
            userData: entry.pointee.user_data, result: entry.pointee.res,
            flags: entry.pointee.flags)
    }

    /// Takes the next completion from the ring; nil if the ring is empty.
    @inline(__always)
    mutating func nextCompletion() -> Completion? {
        guard martlet_load_acquire_u32(completionTail) != completionHeadLocal else { return nil }
        let completion = completion(at: completionHeadLocal)
        completionHeadLocal &+= 1
        martlet_store_release_u32(completionHead, completionHeadLocal)
        return completion
    }
}
