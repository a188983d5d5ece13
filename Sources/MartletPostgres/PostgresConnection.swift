// SPDX-License-Identifier: Apache-2.0
//
// A connection of libpq with a deadline for each call. libpq sends and receives without blocking, and the
// calling thread waits in poll until the deadline. A statement is never cancelled: PostgreSQL reports a cancelled wait
// for the standby as a success, with a warning. Rests on CPostgres.
// Source: PostgreSQL 15, chapter 34.

internal import CPostgres
import Glibc

/// A connection to one server. For one thread at a time.
package final class PostgresConnection {
    /// Fields of a message of the server, as libpq-fe.h names them with characters.
    private enum Field {
        static let severity = Int32(UInt8(ascii: "V"))
        static let code = Int32(UInt8(ascii: "C"))
        static let text = Int32(UInt8(ascii: "M"))
    }

    private let connection: OpaquePointer
    /// Names of statements planned by the server.
    private var prepared: Set<String> = []
    /// The last warning of the server since the beginning of the last statement.
    package private(set) var warning: String?

    private init(_ connection: OpaquePointer) { self.connection = connection }

    deinit { PQfinish(connection) }

    // MARK: Connecting

    /// Connects. libpq looks names up in the domain name system without a deadline.
    /// - Parameter parameters: keywords of libpq with their values.
    package static func open(
        _ parameters: [(name: String, value: String)], until deadline: PostgresDeadline
    ) throws(PostgresError) -> PostgresConnection {
        let names = parameters.map { strdup($0.name) } + [nil]
        let values = parameters.map { strdup($0.value) } + [nil]
        defer { for text in names + values { free(text) } }
        let started = PQconnectStartParams(
            names.map { UnsafePointer($0) }, values.map { UnsafePointer($0) }, 0)
        guard let started else { throw .unreachable("no memory is left for a connection") }
        let opened = PostgresConnection(started)
        try opened.finishConnecting(until: deadline)
        return opened
    }

    private func finishConnecting(until deadline: PostgresDeadline) throws(PostgresError) {
        guard PQstatus(connection) != CONNECTION_BAD else { throw .unreachable(errorText) }
        var state = PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            guard state != PGRES_POLLING_FAILED else { throw .unreachable(errorText) }
            do throws(PostgresError) {
                try wait(for: state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until: deadline)
            } catch {
                throw .unreachable("\(error)")
            }
            state = PQconnectPoll(connection)
        }
        guard PQsetnonblocking(connection, 1) == 0 else { throw .unreachable(errorText) }
        PQsetNoticeReceiver(
            connection,
            { owner, notice in
                guard let owner, let notice else { return }
                Unmanaged<PostgresConnection>.fromOpaque(owner).takeUnretainedValue().note(notice)
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private func note(_ notice: OpaquePointer) {
        guard Self.field(Field.severity, of: notice) == "WARNING" else { return }
        warning = Self.field(Field.text, of: notice) ?? "a warning without a text"
    }

    // MARK: Statements

    /// Runs one statement.
    /// - Parameter name: a name for the statement's plan on the server; nil: the plan is not kept.
    /// - Throws: `late` or `lost`: the statement may take effect. The connection is of no use any more.
    @discardableResult
    package func run(
        _ statement: String, _ values: [PostgresValue] = [], as name: String? = nil,
        until deadline: PostgresDeadline
    ) throws(PostgresError) -> PostgresResult {
        warning = nil
        let parameters = PostgresParameters(values)
        if let name, !prepared.contains(name) {
            guard
                PQsendPrepare(
                    connection, name, statement, Int32(values.count), parameters.types) == 1
            else { throw .lost(errorText) }
            try collect(until: deadline)
            prepared.insert(name)
        }
        let isSent = parameters.withPointers { count, values, lengths, formats in
            if let name {
                PQsendQueryPrepared(connection, name, count, values, lengths, formats, 1) == 1
            } else {
                PQsendQueryParams(
                    connection, statement, count, parameters.types, values, lengths, formats, 1)
                    == 1
            }
        }
        guard isSent else { throw .lost(errorText) }
        return try collect(until: deadline)
    }

    /// Sends what is left, and receives the result.
    @discardableResult
    private func collect(until deadline: PostgresDeadline) throws(PostgresError) -> PostgresResult {
        while true {
            let left = PQflush(connection)
            guard left >= 0 else { throw .lost(errorText) }
            guard left > 0 else { break }
            // The server may have much to say before it reads on.
            try wait(for: POLLIN | POLLOUT, until: deadline)
            guard PQconsumeInput(connection) == 1 else { throw .lost(errorText) }
        }
        var answer: PostgresResult?
        var failure: PostgresError?
        while true {
            while PQisBusy(connection) == 1 {
                try wait(for: POLLIN, until: deadline)
                guard PQconsumeInput(connection) == 1 else { throw .lost(errorText) }
            }
            guard let result = PQgetResult(connection) else { break }
            let status = PQresultStatus(result)
            if status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK {
                answer = PostgresResult(result)
            } else {
                failure = Self.failure(result)
                PQclear(result)
            }
        }
        guard PQstatus(connection) == CONNECTION_OK else {
            throw .lost(failure.map { "\($0)" } ?? errorText)
        }
        if let failure { throw failure }
        guard let answer else { throw .lost("the server has sent no result") }
        return answer
    }

    private static func failure(_ result: OpaquePointer) -> PostgresError {
        let text = field(Field.text, of: result) ?? oneLine(PQresultErrorMessage(result))
        // An ERROR has undone the statement. With FATAL and PANIC the session ends, perhaps after its commit.
        guard field(Field.severity, of: result) == "ERROR",
            let code = field(Field.code, of: result)
        else { return .lost(text) }
        return .server(code: code, text: text)
    }

    // MARK: Waiting

    /// Waits for the socket.
    private func wait(for events: Int32, until deadline: PostgresDeadline) throws(PostgresError) {
        while true {
            let socket = PQsocket(connection)
            guard socket >= 0 else { throw .lost(errorText) }
            var waiting = pollfd(fd: socket, events: Int16(events), revents: 0)
            let count = poll(&waiting, 1, deadline.milliseconds)
            if count > 0 { return }
            guard count == 0 || errno == EINTR else {
                throw .lost("poll failed with error \(errno)")
            }
            if count == 0 || deadline.isOver { throw .late }
        }
    }

    // MARK: Texts

    private var errorText: String {
        let text = Self.oneLine(PQerrorMessage(connection))
        return text.isEmpty ? "the connection was lost" : text
    }

    private static func field(_ field: Int32, of result: OpaquePointer) -> String? {
        PQresultErrorField(result, field).map { oneLine($0) }
    }

    private static func oneLine(_ text: UnsafePointer<CChar>?) -> String {
        guard let text else { return "" }
        return String(cString: text).split { $0.isNewline }.joined(separator: " ")
    }
}
