// SPDX-License-Identifier: Apache-2.0
//
// What Martlet's store and conditions cost without sockets, as lines of JSON. Millions of instances
// are made as sets of ordinals straight in the store: a send or a condition reads nothing else of
// instances that are not connected.
//
//     bench-store audience FOLDER INSTANCES DUMP    conditions from LMDB; DUMP: the topics' members as
//                                                   u32 in FOLDER/topic-N.u32, for other libraries
//     bench-store durable FOLDER INSTANCES          accepted sends to many offline instances
//     bench-store changes FOLDER                    topic changes and direct sends through the API
//     bench-store direct FOLDER                     rows of messages for one instance
//     bench-store steady FOLDER                     the store's size under weeks of the same load
//     bench-store micro FOLDER                      the delivery path without a kernel; entries of a
//                                                   ring, allocations, blocks of a condition
//     bench-store instances FOLDER INSTANCES        a folder of so many registered instances
//
// Rests on the store, the engine and the embedding API.

import Glibc
import Martlet
import MartletBits
import MartletCondition
import MartletEngine
import MartletStore

@main
enum Main {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 3 else {
            print(
                """
                usage: bench-store audience|durable|changes|direct|steady|micro|instances FOLDER \
                [INSTANCES [DUMP]]
                """
            )
            exit(2)
        }
        let folder = arguments[2]
        let instances = arguments.count > 3 ? Int(arguments[3]) ?? 0 : 0
        switch arguments[1] {
        case "audience":
            try Audiences.measure(
                folder: folder, instances: instances, dumps: arguments.count > 4)
        case "durable": try await DurableFanout.measure(folder: folder, instances: instances)
        case "micro":
            Micro.measure()
            try RingCosts.measure()
            try Costs.measure(folder: folder)
        case "instances": try await Instances.build(folder: folder, instances: instances)
        case "changes": try await Changes.measure(folder: folder)
        case "direct": try DirectMessages.measure(folder: folder)
        case "steady": try SteadyLoad.measure(folder: folder)
        default: exit(2)
        }
    }
}

func nanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// The CPU time of this process, all threads.
func processNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Bytes that this process has caused to be written to a disk.
func bytesWritten() -> UInt64 {
    guard let file = fopen("/proc/self/io", "r") else { return 0 }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while fgets(&line, 256, file) != nil {
        let text = line.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        if text.hasPrefix("write_bytes: ") {
            return UInt64(text.dropFirst(13).prefix { $0.isNumber }) ?? 0
        }
    }
    return 0
}

/// One line of the result.
func report(_ fields: KeyValuePairs<String, Any>) {
    let text = fields.map { key, value in
        let shown: String =
            switch value {
            case let value as String: "\"\(value)\""
            case let value as Double: "\((value * 1e6).rounded() / 1e6)"
            default: "\(value)"
            }
        return "\"\(key)\":\(shown)"
    }
    print("{\(text.joined(separator: ","))}")
    fflush(nil)
}

/// xorshift: the same sets on every machine.
struct Random {
    var state: UInt64

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }

    /// 0 to 1.
    mutating func fraction() -> Double { Double(next() >> 11) / Double(1 << 53) }
}
