// SPDX-License-Identifier: Apache-2.0
//
// Measures how much of the arena each project holds (OPS-5, FAN-6). A chunk stays as long as any part of it waits to be
// sent, so a reader that has stopped holds memory, and we charge its project. Counting with every frame would cost time on
// every frame, so the caller measures now and then, looking only at connections that have frames to send. A project over
// its bound is *crowded*: its fanouts and mailboxes wait, and the caller disconnects the readers that have been stuck longest.
// Rests on OutputQueues and ProjectTable.

package import MartletBase
import MartletEngine

/// Bounds on the bytes of frames in a loop.
package struct FrameBounds: Sendable {
    /// Bytes of a project above which the project is crowded.
    package var perProjectMax: Int
    /// Bytes of the arena at which no fanout begins and no mailbox is read.
    package var totalMax: Int

    /// - Parameter loopCount: how many loops share the limits, in equal parts.
    package init(_ limits: BrokerLimits = BrokerLimits(), loopCount: Int = 1) {
        perProjectMax = Self.part(limits.frameMegabytesPerProjectMax, loopCount)
        totalMax = Self.part(limits.frameMegabytesMax, loopCount)
    }

    /// A loop's part of a limit; 0 megabytes means no bound. At least eight chunks, because a loop couldn't go on with fewer.
    private static func part(_ megabytes: Int, _ loopCount: Int) -> Int {
        guard megabytes > 0 else { return .max }
        return max((megabytes << 20) / loopCount, 8 * FrameArena.bytesPerChunk)
    }

    /// Growth of the arena, in bytes, after which the caller measures again.
    package var step: Int { perProjectMax / 4 }
    /// At this many bytes a crowded project is no longer crowded.
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
    /// Begins a measurement, counting every project's chunks anew.
    package mutating func beginMeasuring() {
        projects.forEach { $0.pointee.chunks.removeAll() }
    }

    /// Counts a connection's chunks for its project.
    package mutating func measure(_ index: UInt32) {
        guard sessions[Int(index)].queuedBytes > 0 else { return }
        let project = projects[sessions[Int(index)].project]
        output.forEachChunk(of: index) { project.pointee.chunks.insert($0) }
    }

    /// Ends a measurement, and decides which projects are crowded.
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

    /// Whether a project is crowded, so that no more frames may be queued for it.
    package func isCrowded(_ project: ProjectNumber) -> Bool {
        projects.find(project)?.pointee.isCrowded ?? false
    }

    /// The project that held most at the last measurement, if any did.
    package var largestHolder: ProjectNumber? {
        var largest: (project: ProjectNumber, bytes: Int)?
        projects.forEach { project in
            guard project.pointee.frameBytes > largest?.bytes ?? 0 else { return }
            largest = (project.pointee.number, project.pointee.frameBytes)
        }
        return largest?.project
    }

    /// Assigns a connection without a device to a project, which is charged for its frames.
    package mutating func assign(_ index: UInt32, to project: ProjectNumber) {
        sessions[Int(index)].project = project
    }

    /// The project charged for the session's frames.
    package func project(of index: UInt32) -> ProjectNumber { sessions[Int(index)].project }
}
