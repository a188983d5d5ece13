// SPDX-License-Identifier: Apache-2.0
//
// A project's limits for one message: its size (MSG-3) and its time to live (TTL-1). The engine checks both in the transaction
// that accepts the message, against the project's record there. So a changed limit holds for the next message on every
// connection, and no thread keeps a copy. A message that has waited was checked when it was accepted, and keeps its time to
// live. Rests on the records.

import MartletBase
import MartletRows

/// The limits of one project for a message.
struct MessageBounds {
    private let payloadBytesMax: Int
    /// The longest time to live, which is also the default (TTL-1).
    let timeToLiveSecondsMax: UInt32

    init(_ project: Project, _ limits: BrokerLimits) {
        payloadBytesMax = min(
            project.limits[.payloadBytes] ?? limits.payloadBytesMax, Limits.payloadBytesCeiling)
        timeToLiveSecondsMax = min(
            UInt32(clamping: project.limits[.timeToLiveSeconds] ?? limits.timeToLiveSecondsMax),
            Limits.timeToLiveSecondsCeiling)
    }

    // MARK: Payload (MSG-3)

    /// - Parameter platforms: whose instances get a message of this size.
    func check(_ size: MessageSize, for platforms: PlatformSet = .all) throws(MartletError) {
        guard size.payloadBytes <= payloadBytesMax else {
            throw MartletError(
                .invalidArgument,
                """
                The payload has \(size.payloadBytes) bytes; at most \(payloadBytesMax) are allowed for title, \
                body, image, data keys and values together (payload-bytes-max).
                """, field: platforms.messageField)
        }
        let blockBytesMax =
            Limits.platformBlockBytesMax + max(0, payloadBytesMax - Limits.payloadBytesMax)
        guard size.blockBytes <= blockBytesMax else {
            throw MartletError(
                .invalidArgument,
                "The block has \(size.blockBytes) bytes; at most \(blockBytesMax) are allowed.",
                field: platforms.messageField)
        }
    }

    // MARK: Time to live (TTL-1)

    /// When a message expires.
    /// - Parameters:
    ///   - start: when its time to live begins.
    ///   - platforms: whose instances get it with this time to live.
    func expiry(
        of lifespan: Lifespan, from start: Instant, for platforms: PlatformSet
    ) throws(MartletError) -> Instant {
        switch lifespan {
        case .longest: break
        case .seconds(let seconds):
            guard seconds <= timeToLiveSecondsMax else {
                throw tooLong(platforms.timeToLiveField)
            }
        case .until(let end):
            let farthest = Int64(timeToLiveSecondsMax) + Int64(Limits.expirationSpareSeconds)
            guard end <= start.advanced(bySeconds: farthest) else {
                throw MartletError(
                    .invalidArgument,
                    """
                    A message expires at most \(farthest) seconds ahead; stored it is for \
                    \(timeToLiveSecondsMax) seconds at most (time-to-live-seconds-max).
                    """, field: platforms.timeToLiveField)
            }
        }
        return lifespan.end(from: start, longestSeconds: timeToLiveSecondsMax)
    }

    /// The time to live of a device's message, in seconds (UPS-1).
    func seconds(ofUpstream seconds: UInt32?) throws(MartletError) -> UInt32 {
        guard let seconds else { return timeToLiveSecondsMax }
        guard seconds <= timeToLiveSecondsMax else { throw tooLong("ttl") }
        return seconds
    }

    private func tooLong(_ field: String) -> MartletError {
        MartletError(
            .invalidArgument,
            "The time to live is 0 to \(timeToLiveSecondsMax) seconds (time-to-live-seconds-max).",
            field: field)
    }
}

extension Lifespan {
    /// When a life that begins at `start` ends, within the bound.
    func end(from start: Instant, longestSeconds: UInt32) -> Instant {
        let longest = start.advanced(bySeconds: Int64(longestSeconds))
        return switch self {
        case .longest: longest
        case .seconds(let seconds): min(start.advanced(bySeconds: Int64(seconds)), longest)
        case .until(let end): min(max(end, start), longest)
        }
    }
}

extension PlatformSet {
    /// The part of the sender's message that these platforms get.
    fileprivate var messageField: String {
        switch self {
        case PlatformSet(.android): "message.android"
        case PlatformSet(.apple): "message.apns"
        case PlatformSet(.web): "message.webpush"
        default: "message"
        }
    }

    /// Where the time to live is in that part.
    fileprivate var timeToLiveField: String {
        switch self {
        case PlatformSet(.android): "message.android.ttl"
        case PlatformSet(.apple): "message.apns.headers.apns-expiration"
        case PlatformSet(.web): "message.webpush.headers.TTL"
        default: "time_to_live"
        }
    }
}
