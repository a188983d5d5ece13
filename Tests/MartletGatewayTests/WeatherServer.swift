import Logging
import Martlet
import MartletGateway
import ServiceLifecycle
import UnixSignals

/// Tells everybody who is subscribed to a place what is coming.
struct Warnings: Service {
    let broker: Broker
    let incoming: AsyncStream<(place: String, text: String)>

    func run() async throws {
        for await warning in incoming.cancelOnGracefulShutdown() {
            let message = Message(
                notification: .init(title: "Warning for \(warning.place)", body: warning.text))
            let receipt = try await broker.send(
                OutgoingMessage(
                    to: .topic(warning.place), message, timeToLiveSeconds: 3600, priority: .high),
                in: "weather")
            print("\(receipt.recipientCount) instances get it")
        }
    }
}

/// A server of your own with a broker in it: devices connect to it, Firebase's Admin SDKs send
/// through it, and so does your own code. Runs until SIGTERM or Ctrl-C.
func serveWeather(
    folder: String, devices: BrokerConfiguration.Address, sdks: BrokerConfiguration.Address,
    warnings: AsyncStream<(place: String, text: String)>
) async throws {
    let broker = try await Broker.open(BrokerConfiguration(folder: folder, address: devices))
    if (try? broker.project("weather")) == nil {
        _ = try await broker.createProject("weather")
        let key = try await broker.createRegistrationKey(named: "app", in: "weather")
        print("For the app's devices: \(key.text)")
    }
    var gateway = GatewayConfiguration()
    gateway.address = sdks
    let server = try GatewayServer(Gateway(broker, gateway))
    let group = ServiceGroup(
        configuration: .init(
            // Ended from the last to the first: the broker outlives what uses it.
            services: [
                BrokerService(broker), server, Warnings(broker: broker, incoming: warnings),
            ],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger(label: "weather")))
    try await group.run()
}
