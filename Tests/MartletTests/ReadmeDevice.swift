// SPDX-License-Identifier: Apache-2.0
//
// What the README shows of a device, compiled. ReadmeTests compares the two.

import MartletClient

func readmeDevice() async throws {
    var options = DeviceOptions()
    options.registration = .key("the project's registration key")
    let device = try await MartletDevice.open(
        host: "127.0.0.1", projectID: "harbour", appName: "com.example.tides", platform: .apple,
        store: DeviceStateFile(path: "device.json"), options: options)
    try await device.subscribe(toTopic: "tides")
    for try await message in device.messages {
        print(message.notification?.title ?? "", message["at"] ?? "")
    }
}
