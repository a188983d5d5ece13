// SPDX-License-Identifier: Apache-2.0
//
// A connection that several devices share, each on a channel (NET-4). A break of the connection ends all channels; an
// app that leaves ends only its own channel. Rests on MartletWire.

import MartletBase
import MartletWire

/// The push service of a phone with several apps.
final class SimulatedPhone: SimulatedClient {
    /// Channels in use. nil: the channel's app has left, and DETACHED has not come.
    private var apps: [UInt8: SimulatedDevice?] = [:]
    private var heard: UInt8 = 0
    private var told: UInt8 = 0
    /// Devices on the phone.
    var deviceCount = 0

    /// - Returns: the channel; nil if no loop listens, or no channel is free.
    func attach(_ device: SimulatedDevice) -> UInt8? {
        if link == nil {
            guard connect() else { return nil }
            apps = [:]
            heard = 0
            told = 0
            send(.hello(.shared))
        }
        let channels = 1...UInt8(Limits.appsPerConnectionMax)
        guard let channel = channels.first(where: { apps[$0] == nil }) else { return nil }
        apps[channel] = .some(device)
        return channel
    }

    func send(_ frames: [ClientFrame], on channel: UInt8) {
        let isOther = channel != told
        told = channel
        send((isOther ? [.channel(ChannelSelection(number: channel))] : []) + frames)
    }

    /// Detaches an app from its channel.
    func detach(_ channel: UInt8) {
        apps[channel] = .some(nil)
        send([.detach(Detach())], on: channel)
    }

    /// Breaks the connection for every app.
    func breakOff(_ ending: SimulatedLink.Ending) {
        guard link != nil else { return }
        drop(ending)
        lost()
    }

    override func lost() {
        let all = apps.sorted { $0.key < $1.key }.compactMap(\.value)
        apps = [:]
        for device in all { device.lost() }
    }

    override func handle(_ frame: BrokerFrame) {
        if case .channel(let selection) = frame {
            heard = selection.number
            return
        }
        guard heard != 0 else {
            if case .error(let error) = frame { oracle.connectionRefused(error.error, number) }
            return
        }
        guard let app = apps[heard] else {
            return oracle.fail(
                "client \(number) got \(frame.type) on channel \(heard), which is free")
        }
        if case .detached = frame {
            apps[heard] = nil
            app?.lost()
        } else {
            app?.handle(frame)
        }
    }
}
