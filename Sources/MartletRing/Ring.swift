// SPDX-License-Identifier: Apache-2.0
//
// The owner of one io_uring: the two shared rings and the system call between them. liburing maps
// and registers; submission and completion go through the mapped words directly, which costs 1 ns an
// operation. Flags of the ring, and why:
//
// - SINGLE_ISSUER, DEFER_TASKRUN: one thread uses it, and completions are worked off when that
//   thread asks, not when an interrupt strikes. Hence completions appear only inside `enter`, and
//   the ring must be created on the thread that uses it. (COOP_TASKRUN is implied.)
// - TASKRUN_FLAG: the kernel says in shared memory that work waits, so polling costs no call.
// - SUBMIT_ALL: an operation that fails at once does not hold back the rest of the batch.
// - CQSIZE, CLAMP: a completion ring of our own size.
//
// When the completion ring is full the kernel keeps completions in its own memory (NODROP) and moves
// them over at the next `enter` with GETEVENTS, which is every one that follows an empty ring. Rests
// on CLiburing.

internal import CLiburing
internal import Glibc

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

    /// IORING_FEAT_* of the kernel.
    let features: UInt32
    /// The ring's own descriptor, to which other rings send messages.
    var descriptor: Int32 { control.pointee.ring_fd }
    var submissionCapacity: Int { Int(submissionMask) + 1 }

    init(submissionEntries: Int, completionEntries: Int) throws(RingError) {
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
            throw RingError.setup("io_uring_setup", errno: -result)
        }
        do {
            try Self.requireFeatures(control)
        } catch {
            io_uring_queue_exit(control)
            control.deallocate()
            throw error
        }
        // Saves the look-up of the descriptor at each call. A refusal costs only that.
        let isRegistered = io_uring_register_ring_fd(control) == 1

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

    /// Lets a registration use liburing's handle.
    borrowing func withControl<R>(_ body: (UnsafeMutablePointer<io_uring>) -> R) -> R {
        body(control)
    }

    // MARK: Submission

    /// Operations that the kernel has not taken yet.
    private var queuedCount: UInt32 {
        submissionTailLocal &- martlet_load_relaxed_u32(submissionHead)
    }

    /// The next free entry; the caller fills it before the next call. If the ring is full it is
    /// submitted, so this always succeeds.
    @inline(__always)
    mutating func nextSubmission() -> UnsafeMutablePointer<io_uring_sqe> {
        if queuedCount > submissionMask { submitAll(but: submissionMask) }
        let entry = submissions + Int(submissionTailLocal & submissionMask)
        submissionTailLocal &+= 1
        return entry
    }

    /// An entry's place in the ring: no two operations of one place are queued together, so it can
    /// index memory that must live until submission.
    @inline(__always)
    func place(of entry: UnsafeMutablePointer<io_uring_sqe>) -> Int { entry - submissions }

    /// Submits until at most `rest` operations are queued.
    @inline(never)
    private mutating func submitAll(but rest: UInt32) {
        // Out of memory is the only reason for the kernel not to take all operations. To lose one
        // would leave a connection hanging for ever, so the bound is patience: 10 s.
        for _ in 0..<10_000 {
            martlet_store_release_u32(submissionTail, submissionTailLocal)
            let result = io_uring_enter2(
                enterDescriptor, queuedCount, 0, enterFlags, nil, 0)
            if queuedCount <= rest { return }
            precondition(
                result >= 0 || result == -EAGAIN || result == -EBUSY || result == -EINTR,
                "io_uring_enter failed: \(RingError.entering(errno: -result))")
            usleep(1000)
        }
        fatalError("The kernel has taken no operation for 10 s: it is out of memory.")
    }

    /// Submits what is queued and waits for a completion or the timeout (nil: for ever, 0: not).
    mutating func enter(timeoutMicroseconds: Int?) throws(RingError) {
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
        // All is well, time is over, a signal came, or the kernel has no memory right now.
        case ...0, ETIME, EINTR, EAGAIN, EBUSY: break
        case let errno: throw RingError.entering(errno: errno)
        }
        // What the caller lent to the operations until now (vectors, headers) it will use again.
        if queuedCount > 0 { submitAll(but: 0) }
    }

    /// Whether the kernel holds completions which only a call brings into the ring.
    private var isWorkWaiting: Bool {
        let flags = martlet_load_relaxed_u32(submissionFlags)
        return flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW) != 0
    }

    /// Whether the kernel has told of everything that it has done.
    var hasToldAll: Bool {
        martlet_load_acquire_u32(completionTail) == completionHeadLocal
            && martlet_load_relaxed_u32(submissionFlags) & IORING_SQ_CQ_OVERFLOW == 0
    }

    // MARK: Completion

    /// Takes the next completion out of the ring.
    @inline(__always)
    mutating func nextCompletion() -> Completion? {
        guard martlet_load_acquire_u32(completionTail) != completionHeadLocal else { return nil }
        let entry = completions + Int(completionHeadLocal & completionMask)
        let completion = Completion(
            userData: entry.pointee.user_data, result: entry.pointee.res,
            flags: entry.pointee.flags)
        completionHeadLocal &+= 1
        martlet_store_release_u32(completionHead, completionHeadLocal)
        return completion
    }
}
