// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks, a package of their own so that nobody who embeds Martlet builds them. The load
// generator and the kernel floor are C without dependencies but liburing: they must cost little and
// share no code with what they measure. What measures Martlet's own modules is Swift.

import PackageDescription

let common: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "martlet-benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        // By name, so that the folder of the checkout may be called anything.
        .package(name: "martlet-broker", path: "..")
    ],
    targets: [
        .executableTarget(
            name: "bench-broker",
            dependencies: [.product(name: "Martlet", package: "martlet-broker")],
            path: "Sources/BenchBroker", swiftSettings: common),
        .executableTarget(
            name: "bench-store",
            dependencies: [.product(name: "Martlet", package: "martlet-broker")],
            path: "Sources/BenchStore", swiftSettings: common),
        .executableTarget(name: "bench-load", path: "Sources/MartletLoad"),
        .executableTarget(
            name: "bench-rows", path: "Sources/BenchRows",
            linkerSettings: [.linkedLibrary("lmdb")]),
        .executableTarget(
            name: "bench-ring", path: "Sources/RingFloor",
            linkerSettings: [.linkedLibrary("uring")]),
        .executableTarget(
            name: "bench-floor", path: "Sources/KernelFloor",
            linkerSettings: [.linkedLibrary("uring")]),
    ]
)
