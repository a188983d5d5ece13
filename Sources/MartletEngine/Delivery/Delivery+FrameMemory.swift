// SPDX-License-Identifier: Apache-2.0
//
// Whose frames fill the arena (OPS-5, FAN-6). A chunk stays while anybody still has to be sent a part
// of it, so those who read nothing hold on to memory, and what they hold is their project's. It is
// measured from time to time instead of being counted with each frame: then a frame costs nothing, and
// only connections with something to send are looked at. A project above its bound is *crowded*: its
// fanouts and mailboxes wait, and its caller disconnects those who have not read for longest. Rests on
// OutputQueues and ProjectTable.

public import MartletBase

/// Bytes of frames that one loop holds.
public struct FrameBounds: Sendable {
    public var perProjectMax: Int
    public var totalMax: Int

    /// - Parameter loopCount: loops that share what the limits allow.
    public init(_ limits: MailboxLimits = MailboxLimits(), loopCount: Int = 1) {
        perProjectMax = Self.part(limits.frameMegabytesPerProjectMax, loopCount)
        totalMax = Self.part(limits.frameMegabytesMax, loopCount)
    }

    /// A loop with a few chunks less could not go on.
    private static func part(_ megabytes: Int, _ loopCount: Int) -> Int {
        guard megabytes > 0 else { return .max }
        return max((megabytes << 20) / loopCount, 8 * FrameArena.bytesPerChunk)
    }

    /// Growth after which it is measured again.
    public var step: Int { perProjectMax / 4 }
    /// A crowded project is not when it holds less than this.
    var released: Int { perProjectMax / 4 * 3 }
}

/// Chunks by number.
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
    /// Everything is counted anew.
    public mutating func beginMeasuring() {
        projects.forEach { $0.pointee.chunks.removeAll() }
    }

    /// Counts what one connection holds.
    public mutating func measure(_ index: UInt32) {
        guard sessions[Int(index)].queuedBytes > 0 else { return }
        let project = projects[sessions[Int(index)].project]
        output.forEachChunk(of: index) { project.pointee.chunks.insert($0) }
    }

    /// From now on projects are crowded, or not, by what was counted.
    /// - Returns: those that are.
    public mutating func endMeasuring(_ bounds: FrameBounds) -> [ProjectNumber] {
        var crowded: [ProjectNumber] = []
        projects.forEach { project in
            let bytes = project.pointee.chunks.count * FrameArena.bytesPerChunk
            let limit = project.pointee.isCrowded ? bounds.released : bounds.perProjectMax
            project.pointee.frameBytes = bytes
            project.pointee.isCrowded = bytes > limit
            if project.pointee.isCrowded { crowded.append(project.pointee.number) }
            behind.setHeld(project.pointee.isCrowded, project.pointee.number)
        }
        return crowded
    }

    /// Whether what waits to be sent for a project may not grow.
    public func isCrowded(_ project: ProjectNumber) -> Bool {
        projects.find(project)?.pointee.isCrowded ?? false
    }

    /// The project that holds most, as of the last measurement.
    public var largestHolder: ProjectNumber? {
        var largest: (project: ProjectNumber, bytes: Int)?
        projects.forEach { project in
            guard project.pointee.frameBytes > largest?.bytes ?? 0 else { return }
            largest = (project.pointee.number, project.pointee.frameBytes)
        }
        return largest?.project
    }

    /// What a connection that is no device's holds is this project's.
    public mutating func assign(_ index: UInt32, to project: ProjectNumber) {
        sessions[Int(index)].project = project
    }

    public func project(of index: UInt32) -> ProjectNumber { sessions[Int(index)].project }
}
