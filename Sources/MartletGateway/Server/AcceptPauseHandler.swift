// SPDX-License-Identifier: Apache-2.0
//
// Stops accepting for a moment when no descriptors are free (OPS-5). The listening socket stays readable then, and an event
// loop that keeps trying takes a whole core from all other work. The handler pauses accepting for a moment; connections wait
// in the system's queue meanwhile. Rests on NIO.

import Glibc
package import Logging
package import NIOCore

/// Pauses accepting when the system has no room for a connection.
package final class AcceptPauseHandler: ChannelDuplexHandler {
    package typealias InboundIn = Channel
    package typealias InboundOut = Channel
    package typealias OutboundIn = Never
    package typealias OutboundOut = Never

    /// Pause after a failed accept. Five attempts a second have no measurable cost.
    private static let pause = TimeAmount.milliseconds(200)
    /// Shortest time between two lines in the log.
    private static let silence = Duration.seconds(60)

    private let kind: String
    private let logger: Logger
    private var isPaused = false
    private var lastTold: ContinuousClock.Instant?

    /// - Parameter kind: kind of the connections, for the log.
    package init(_ kind: String, _ logger: Logger) {
        self.kind = kind
        self.logger = logger
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let fault = error as? IOError else { return context.fireErrorCaught(error) }
        switch fault.errnoCode {
        case ECONNABORTED:
            // The peer left while waiting. Handed on, the error would end the server.
            break
        case EMFILE, ENFILE, ENOBUFS, ENOMEM: pause(context, fault)
        default: context.fireErrorCaught(error)
        }
    }

    /// Ignores reads during a pause; automatic reading resumes at the end of the pause.
    package func read(context: ChannelHandlerContext) {
        if !isPaused { context.read() }
    }

    private func pause(_ context: ChannelHandlerContext, _ fault: IOError) {
        let now = ContinuousClock.now
        if lastTold.map({ $0 + Self.silence <= now }) ?? true {
            lastTold = now
            logger.error(
                "no \(kind) connection can be accepted for now; raise the limit of descriptors",
                metadata: ["error": "\(String(cString: strerror(fault.errnoCode)))"])
        }
        guard !isPaused else { return }
        isPaused = true
        let channel = context.channel
        // Only `autoRead` makes the event loop forget the socket; ignoring reads is not enough.
        setAutoRead(false, channel)
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) {
            self.isPaused = false
            self.setAutoRead(true, channel)
        }
    }

    private func setAutoRead(_ isOn: Bool, _ channel: any Channel) {
        try? channel.syncOptions?.setOption(.autoRead, value: isOn)
    }
}

@available(*, unavailable)
extension AcceptPauseHandler: Sendable {}
