// SPDX-License-Identifier: Apache-2.0
//
// The arena's memory by project (OPS-5, FAN-6). A chunk stays as long as parts of the chunk wait to be sent. So a
// stopped reader holds memory, and the memory counts for the reader's project. The caller measures the memory from
// time to time, because a count with each frame would cost time for each frame. A measurement looks only at
// connections with frames to send. A project above the bound is *crowded*: the project's fanouts and mailboxes
// wait, and the caller disconnects the readers stuck longest. Rests on OutputQueues and ProjectTable.

package import MartletBase
import MartletEngine

/// Bounds on the bytes of frames in a loop.
package struct FrameBounds: Sendable {
    /// Bytes of a project above which the project is crowded.
    package var perProjectMax: Int
    /// Bytes of the arena at which no fanout begins and no mailbox is read.
    package var totalMax: Int

    /// - Parameter loopCount: the number of loops. Each loop gets an equal part of the limits.
    package init(_ limits: MailboxLimits = MailboxLimits(), loopCount: Int = 1) {
        perProjectMax = Self.part(limits.frameMegabytesPerProjectMax, loopCount)
        totalMax = Self.part(limits.frameMegabytesMax, loopCount)
    }

    /// A loop's part of a limit; 0 megabytes: no bound. The part is at least eight chunks, because a loop with only
    /// a few chunks could not go on.
    private static func part(_ megabytes: Int, _ loopCount: Int) -> Int {
        guard megabytes > 0 else { return .max }
        return max((megabytes << 20) / loopCount, 8 * FrameArena.bytesPerChunk)
    }

    /// Growth of the arena, in bytes, after which the caller measures again.
    package var step: Int { perProjectMax / 4 }
    /// Bytes at or below which a crowded project stops being crowded.
    var released: Int { perProjectMax / 4 * 3 }
}

/// A set of chunk numbers.
struct ChunkSet {
    private var words: [UInt64] = []

    mutating func insert(_ chunk: UInt32) {
        let word = Int(chunk) / 64
        while words.count <= word { words.append(0) }
        words[word] |= 1 << UInt64(chunk % 64)
    }

    mutating func removeAll() { for word in words.indices { words[word] = 0 } }

    var count: Int { words.reduce(0) { $0 + $1.nonzeroBitCount } }
}

extension Delivery {
    /// Begins a measurement: the chunks of all projects are counted anew.
    package mutating func beginMeasuring() {
        projects.forEach { $0.pointee.chunks.removeAll() }
    }

    /// Counts the chunks held by a connection, for its project.
    package mutating func measure(_ index: UInt32) {
        guard sessions[Int(index)].queuedBytes > 0 else { return }
        let project = projects[sessions[Int(index)].project]
        output.forEachChunk(of: index) { project.pointee.chunks.insert($0) }
    }

    /// Ends a measurement, and decides from the counts whether each project is crowded.
    /// - Returns: the crowded projects.
    package mutating func endMeasuring(_ bounds: FrameBounds) -> [ProjectNumber] {
        var crowded: [ProjectNumber] = []
        projects.forEach { project in
            let count = project.pointee.chunks.count
            invariant(count <= output.arena.chunkCount, "A project holds chunks of the arena.")
            let bytes = count * FrameArena.bytesPerChunk
            let limit = project.pointee.isCrowded ? bounds.released : bounds.perProjectMax
            project.pointee.frameBytes = bytes
            project.pointee.isCrowded = bytes > limit
            if project.pointee.isCrowded { crowded.append(project.pointee.number) }
            readingQueue.setHeld(project.pointee.isCrowded, project.pointee.number)
        }
        return crowded
    }

    /// Whether a project is crowded: the frames that wait to be sent for the project may not grow.
    package func isCrowded(_ project: ProjectNumber) -> Bool {
        projects.find(project)?.pointee.isCrowded ?? false
    }

    /// The project with most bytes at the last measurement; nil if no project had any.
    package var largestHolder: ProjectNumber? {
        var largest: (project: ProjectNumber, bytes: Int)?
        projects.forEach { project in
            guard project.pointee.frameBytes > largest?.bytes ?? 0 else { return }
            largest = (project.pointee.number, project.pointee.frameBytes)
        }
        return largest?.project
    }

    /// Assigns a connection without a device to a project. The connection's frames count for the project.
    package mutating func assign(_ index: UInt32, to project: ProjectNumber) {
        sessions[Int(index)].project = project
    }

    /// The project charged for the session's frames.
    package func project(of index: UInt32) -> ProjectNumber { sessions[Int(index)].project }
}
