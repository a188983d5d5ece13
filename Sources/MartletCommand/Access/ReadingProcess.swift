// SPDX-License-Identifier: Apache-2.0
//
// A second process of the same program that reads a data folder. LMDB trusts its file, and a damaged file may end the
// process that reads it. So a command that reads all rows runs itself a second time, and reports the end of the second
// process in a sentence. Rests on MartletStore.

import ArgumentParser
import CSpawn
import FoundationEssentials
import Glibc
import Martlet
import MartletStore

enum ReadingProcess {
    /// The hidden flag of the second process.
    static let flag = "in-this-process"
    /// SCHED_IDLE. Source: linux/sched.h.
    private static let idlePolicy: Int32 = 5

    /// What reading a damaged page ends with.
    private static let signalsOfDamage = [SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGTRAP, SIGFPE]
    /// The variable that tells the second process who started it.
    private static let parentVariable = "MARTLET_READING_FOR"

    /// Ends this process with the command that runs it, and lets the calling thread, and threads that it starts later, run
    /// only on cores that are free. A thread that wakes takes the core of an idle-policy thread at once; a thread of a
    /// lower nice value may have to wait for the end of its slice. Source: sched(7).
    static func giveWay() {
        // A killed command must not be finished behind its back.
        martlet_end_with_parent()
        if let parent = ProcessInfo.processInfo.environment[parentVariable],
            parent != "\(getppid())"
        {
            // It was killed before this line.
            exit(EXIT_FAILURE)
        }
        var parameter = sched_param()
        _ = sched_setscheduler(0, idlePolicy, &parameter)
    }

    /// Runs the typed command line again. Standard input and output are those of the command.
    ///
    /// - Parameter work: names the work in the error of an interruption.
    static func run(reading folder: String, work: String) throws {
        let owner = StoreOwner(holding: folder)
        var arguments: [UnsafeMutablePointer<CChar>?] = CommandLine.arguments.map { strdup($0) }
        arguments += [strdup("--" + flag), nil]
        // A crash is a result, reported below, so the second process prints no backtrace.
        var variables = ProcessInfo.processInfo.environment
        variables["SWIFT_BACKTRACE"] = "enable=no"
        variables[parentVariable] = "\(getpid())"
        var environment: [UnsafeMutablePointer<CChar>?] = variables.map { strdup("\($0)=\($1)") }
        environment.append(nil)
        defer { for text in arguments + environment { free(text) } }
        var child: pid_t = 0
        let code = posix_spawn(&child, "/proc/self/exe", nil, nil, &arguments, &environment)
        guard code == 0 else {
            throw MartletError(
                .unavailable, "No process can be started: \(String(cString: strerror(code))).")
        }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        let (signal, exitCode) = (status & 0x7F, status >> 8 & 0xFF)
        let isDamage = exitCode == StoreConfiguration.damageExitCode
        switch (signal, exitCode) {
        case (0, 0): return
        case (0, _) where !isDamage: throw ExitCode(exitCode)
        case (1..., _) where !Self.signalsOfDamage.contains(signal):
            throw MartletError(
                .unavailable,
                "\(work) was ended (\(String(cString: strsignal(signal)))) before it was done.")
        default: break
        }
        // Pages of a snapshot are not to be trusted after another broker has opened the folder. Without an owner the
        // second process held the folder itself.
        guard owner == nil || owner == StoreOwner(of: folder) else {
            throw StoreOpenError.restarted(folder)
        }
        throw StoreOpenError.damaged(
            folder + "/data.mdb",
            text: isDamage
                ? "LMDB finds a page in it that it never wrote"
                : "reading it ended with '\(String(cString: strsignal(signal)))'")
    }
}
