// SPDX-License-Identifier: Apache-2.0
//
// Checks LMDB's file before LMDB opens it. LMDB maps the file and trusts its content: reading a page beyond the end
// of a truncated file ends the process with a bus error. The check therefore refuses a file whose beginning is not
// that of a store, and a file that lacks a page in use.
//
// Source: LMDB 0.9 (mdb.c, MDB_page, MDB_meta, MDB_db, MDB_node). Little-endian, pages of P bytes.
//
//   pages 0 and 1   meta pages; the one with the higher transaction is valid
//   a page          u64 number ‖ u16 ‖ u16 flags ‖ u16 lower ‖ u16 upper ‖ u16 offset of each node
//   a meta page     …header… ‖ u32 magic ‖ u32 version ‖ u64 ‖ u64 map size ‖ record of the free tree ‖
//                   record of the main tree ‖ u64 last page ‖ u64 transaction
//   a tree's record u32 (of the free tree: P) ‖ u16 flags ‖ u16 depth ‖ 4 × u64 counts ‖ u64 root
//   a node          u16 ‖ u16 ‖ u16 flags ‖ u16 key bytes ‖ key ‖ value. In a branch the first three
//                   numbers are the child's page. In a leaf the first two are the bytes of the value;
//                   with flag 1 the value is the number of the page where the value begins, with flag 2 it is
//                   the record of a table's tree
//
// The meta page of a healthy store may name a last page beyond the end of the file, because LMDB never writes a
// page that a transaction takes and gives back. Such pages are free, and the free tree names every free page. A
// file is therefore complete exactly if all missing pages are in the free tree, which is read only if pages are
// missing. The check does not detect a torn page in the middle of the file; `martlet check` reads all pages. Rests
// on POSIX files.

internal import CLMDB
import Glibc
import MartletBase

/// LMDB's file, open for reading.
struct DataFile: ~Copyable {
    /// The length of a meta page's content, in bytes.
    static let metaBytes = 152

    private static let magic: UInt32 = 0xBEEF_C0DE
    private static let version: UInt32 = 1
    static let headerBytes = 16
    static let noPage = UInt64.max
    /// Largest number of levels in a tree, as in LMDB (CURSOR_STACK).
    static let depthMax = 32

    enum Flag {
        static let branch: UInt16 = 1
        static let leaf: UInt16 = 2
        static let overflow: UInt16 = 4
        static let meta: UInt16 = 8
        /// A flag of a node: the value lies in pages of its own.
        static let isLarge: UInt16 = 1
        /// A flag of a node: the value is the record of a tree.
        static let isTree: UInt16 = 2
    }

    private let path: String
    private let descriptor: Int32
    private var byteCount: Int
    private(set) var pageBytes = 4096

    /// Checks a file.
    ///
    /// - Parameter mayBeNew: accepts a missing or empty file, in which LMDB begins a store.
    /// - Throws: `StoreOpenError.damaged`.
    static func requireSound(at path: String, mayBeNew: Bool) throws(StoreOpenError) {
        guard var file = try DataFile(at: path), file.byteCount > 0 || !mayBeNew else { return }
        try file.check()
    }

    // MARK: Checkpoints

    /// Whether the file is missing or empty.
    static func isNew(at path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_size == 0 : errno == ENOENT
    }

    /// The length of the file, in bytes.
    static func byteCount(at path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    static func transaction(ofMeta page: [UInt8]) -> UInt64 { page.u64(144) }

    /// The number of the newest transaction in the meta pages.
    ///
    /// - Throws: `StoreOpenError.damaged`.
    static func newestTransaction(at path: String) throws(StoreOpenError) -> UInt64 {
        guard var file = try DataFile(at: path) else {
            throw .damaged(path, text: "it is missing, and its journal is there")
        }
        let first = try file.meta(at: 0).transaction
        return max(first, try file.meta(at: 1).transaction)
    }

    /// The mark of the newest transaction; nil if it has none, or none that can be read: a crash of the machine may leave a
    /// meta page whose other pages were not written.
    static func newestMark(at path: String) throws(StoreOpenError) -> JournalMark? {
        guard var file = try DataFile(at: path) else { return nil }
        let (first, second) = (try file.meta(at: 0), try file.meta(at: 1))
        let newest = first.transaction < second.transaction ? second : first
        guard let mark = file.mark(newest), mark.transaction == newest.transaction else {
            return nil
        }
        return mark
    }

    /// The mark of the transaction with this meta page; nil as above.
    static func mark(ofMeta page: [UInt8], at path: String) throws(StoreOpenError) -> JournalMark? {
        guard var file = try DataFile(at: path) else { return nil }
        return file.mark(try file.meta(page, "checkpoint's"))
    }

    /// Restores the state of a checkpoint: both meta pages become the checkpoint's meta page.
    static func restore(_ base: JournalFile.Base, at path: String) throws(StoreOpenError) {
        invariant(base.meta.count == Self.metaBytes, "A checkpoint has a whole meta page.")
        let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            throw .file(path, errno: errno)
        }
        defer { close(descriptor) }
        for number in 0..<2 {
            var page = base.meta
            page[0] = UInt8(number)
            guard pwrite(descriptor, page, page.count, off_t(number * base.pageBytes)) == page.count
            else { throw .file(path, text: String(cString: strerror(errno))) }
        }
    }

    /// - Returns: nil if the file is missing.
    init?(at path: String) throws(StoreOpenError) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        self.path = path
        byteCount = 0
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw .file(path, errno: errno) }
            return nil
        }
        var status = stat()
        byteCount = fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    var pageCount: UInt64 { UInt64(byteCount / pageBytes) }

    func damaged(_ text: String) -> StoreOpenError { .damaged(path, text: text) }

    // MARK: The beginning

    struct Meta {
        var lastPage: UInt64
        var transaction: UInt64
        var free: Tree
        var main: Tree
    }

    private mutating func check() throws(StoreOpenError) {
        guard byteCount >= 2 * 4096 else {
            throw damaged("it has \(byteCount) bytes, and no store has so few")
        }
        let first = try meta(at: 0)
        let second = try meta(at: 1)
        let meta = first.transaction < second.transaction ? second : first
        for tree in [meta.free, meta.main] where tree.root != Self.noPage {
            _ = try page(tree.root, meta)
        }
        guard meta.lastPage >= pageCount else { return }
        let (behind, isOverflow) = meta.lastPage.subtractingReportingOverflow(pageCount - 1)
        guard !isOverflow, try freePages(from: pageCount, meta) == behind else {
            throw damaged(
                "it has \(byteCount) bytes, and \(behind) more pages belong to it: it was cut off")
        }
    }

    private mutating func meta(at number: Int) throws(StoreOpenError) -> Meta {
        let before = pageBytes
        let meta = try meta(
            try bytes(at: number * pageBytes, count: Self.metaBytes),
            number == 0 ? "first" : "second")
        guard number == 0 || before == pageBytes else { throw damaged("its pages have no size") }
        return meta
    }

    mutating func meta(_ page: [UInt8], _ name: String) throws(StoreOpenError) -> Meta {
        guard page.u16(10) & Flag.meta != 0, page.u32(16) == Self.magic,
            page.u32(20) == Self.version
        else { throw damaged("its \(name) page is not that of a store") }
        let stated = Int(page.u32(40))
        guard stated.nonzeroBitCount == 1, (512...65_536).contains(stated) else {
            throw damaged("its pages have no size")
        }
        pageBytes = stated
        return Meta(
            lastPage: page.u64(136), transaction: page.u64(144), free: Tree(page[40..<88]),
            main: Tree(page[88..<136]))
    }

    // MARK: Trees

    /// Reads and checks a page of a tree.
    func page(_ number: UInt64, _ meta: Meta) throws(StoreOpenError) -> [UInt8] {
        guard number >= 2, number <= meta.lastPage, number < pageCount else {
            throw damaged("page \(number), which it needs, is not in it: it was cut off")
        }
        let page = try bytes(at: Int(number) * pageBytes, count: pageBytes)
        let kind = page.u16(10) & (Flag.branch | Flag.leaf | Flag.overflow | Flag.meta)
        guard page.u64(0) == number, kind == Flag.branch || kind == Flag.leaf,
            page.u16(12) <= page.u16(14), Int(page.u16(14)) <= pageBytes,
            Int(page.u16(12)) >= Self.headerBytes
        else { throw damaged("page \(number) is not what it should be") }
        return page
    }

    /// The mark in the tree of a meta page; nil if there is none, or if the way to it leads through a damaged page.
    private func mark(_ meta: Meta) -> JournalMark? {
        var number = meta.main.root
        for _ in 0..<Self.depthMax {
            guard number != Self.noPage, let page = try? page(number, meta) else { return nil }
            let isBranch = page.u16(10) & Flag.branch != 0
            var child: UInt64?
            for index in 0..<((Int(page.u16(12)) - Self.headerBytes) / 2) {
                let node = Int(page.u16(Self.headerBytes + 2 * index))
                guard node + 8 <= page.count, node + 8 + Int(page.u16(node + 6)) <= page.count
                else {
                    return nil
                }
                let value = node + 8 + Int(page.u16(node + 6))
                let key = page[(node + 8)..<value]
                let low = UInt64(page.u16(node)) | UInt64(page.u16(node + 2)) << 16
                if isBranch {
                    // The key of the first node stands for all that are lower.
                    guard index == 0 || !JournalMark.key.lexicographicallyPrecedes(key) else {
                        break
                    }
                    child = low | UInt64(page.u16(node + 4)) << 32
                } else if key.elementsEqual(JournalMark.key), value + Int(low) <= page.count {
                    return JournalMark(Array(page[value..<(value + Int(low))]))
                }
            }
            guard let child else { return nil }
            number = child
        }
        return nil
    }

    /// Counts the free pages with a number of at least `start`.
    private func freePages(from start: UInt64, _ meta: Meta) throws(StoreOpenError) -> UInt64 {
        var count: UInt64 = 0
        try forEachEntry(of: meta.free, meta, isFree: true, pages: { _ in }) {
            (entry) throws(StoreOpenError) in
            for page in try freePages(entry) where page >= start { count += 1 }
        }
        return count
    }

    // MARK: Reading

    func bytes(at offset: Int, count: Int) throws(StoreOpenError) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let read = buffer.withUnsafeMutableBytes {
                pread(descriptor, $0.baseAddress! + done, count - done, off_t(offset + done))
            }
            guard read >= 0 else { throw .file(path, errno: errno) }
            guard read > 0 else { throw damaged("it ends too early") }
            done += read
        }
        return buffer
    }
}

/// Numbers at an offset from the first byte.
extension RandomAccessCollection<UInt8> where Index == Int {
    func u16(_ offset: Int) -> UInt16 {
        UInt16(self[startIndex + offset]) | UInt16(self[startIndex + offset + 1]) << 8
    }
    func u32(_ offset: Int) -> UInt32 {
        UInt32(u16(offset)) | UInt32(u16(offset + 2)) << 16
    }
    func u64(_ offset: Int) -> UInt64 {
        UInt64(u32(offset)) | UInt64(u32(offset + 4)) << 32
    }
}
