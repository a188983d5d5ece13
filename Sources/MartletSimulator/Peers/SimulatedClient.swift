// SPDX-License-Identifier: Apache-2.0
//
// The client's end of a connection: writes and reads frames. Rests on MartletWire and SimulatedLink.

import MartletBase
import MartletWire

/// A client of the broker.
class SimulatedClient {
    let number: Int
    let network: SimulatedNetwork
    let oracle: Oracle
    private(set) var link: SimulatedLink?
    private var splitter = FrameSplitter(frameBytesMax: Limits.brokerFrameBytesMax)
    private var writer = WireWriter(reservingBytes: 256)

    init(number: Int, network: SimulatedNetwork, oracle: Oracle) {
        self.number = number
        self.network = network
        self.oracle = oracle
    }

    /// - Returns: whether a loop listens.
    func connect() -> Bool {
        splitter = FrameSplitter(frameBytesMax: Limits.brokerFrameBytesMax)
        link = network.connect(self)
        return link != nil
    }

    func send(_ frame: ClientFrame) { send([frame]) }

    /// Sends the frames in one piece.
    func send(_ frames: [ClientFrame]) {
        writer.reset()
        for frame in frames { frame.encode(into: &writer) }
        link?.write(writer.bytes)
    }

    func drop(_ ending: SimulatedLink.Ending) {
        let dropped = link
        link = nil
        dropped?.end(ending)
    }

    // MARK: From the network

    func opened(_ link: SimulatedLink) {}

    func received(_ bytes: [UInt8], on link: SimulatedLink) {
        var frames: [BrokerFrame] = []
        bytes.withUnsafeBytes { bytes in
            var chunk = bytes
            do {
                while let frame = try splitter.next(from: &chunk) {
                    frames.append(try BrokerFrame.decode(type: frame.type, body: frame.body))
                }
            } catch {
                oracle.fail("client \(number) cannot read what connection \(link.number) brings")
            }
        }
        for frame in frames where link === self.link { handle(frame) }
    }

    func ended(_ link: SimulatedLink) {
        guard link === self.link else { return }
        self.link = nil
        lost()
    }

    // MARK: For the kinds of clients

    func handle(_ frame: BrokerFrame) {}

    /// Called after the end of the connection.
    func lost() {}
}
