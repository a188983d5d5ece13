// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
//
// The arrows between Martlet's modules. They point one way: what is pure (Base, Bits, Condition,
// Wire, Engine, Delivery) never sees what touches the world (Store, Ring, Epoll, Martlet, MartletClient). The gateway
// alone knows of HTTP: who embeds Martlet does not build it.

import PackageDescription

let common: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

/// Modules without pointers prove it: every unsafe use would be a warning, and warnings are errors.
let memorySafe: [SwiftSetting] = common + [.strictMemorySafety()]

/// For modules that lend views of their memory: `@_lifetime` lets no view outlive its owner.
let lifetimes: [SwiftSetting] = [.enableExperimentalFeature("Lifetimes")]

let package = Package(
    name: "martlet-broker",
    platforms: [.macOS(.v15)],
    products: [
        .library(name: "Martlet", targets: ["Martlet"]),
        .library(name: "MartletClient", targets: ["MartletClient"]),
        .library(name: "MartletClientTLS", targets: ["MartletClientTLS"]),
        .library(name: "MartletBridge", targets: ["MartletBridge"]),
        .library(name: "MartletGateway", targets: ["MartletGateway"]),
        .library(name: "MartletWebPush", targets: ["MartletWebPush"]),
        .library(name: "MartletXMPP", targets: ["MartletXMPP"]),
        .executable(name: "martlet", targets: ["martlet"]),
        .executable(name: "martlet-core", targets: ["martlet-core"]),
        .executable(name: "martlet-sim", targets: ["martlet-sim"]),
    ],
    traits: [
        .trait(name: "Jemalloc", description: "Replace malloc with jemalloc in the whole process"),
        .default(enabledTraits: ["Jemalloc"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.44.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.33.0"),
        // Without its traits Hummingbird needs no Foundation and no library of configurations.
        .package(
            url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(
            url: "https://github.com/swift-server/async-http-client", from: "1.37.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(
            name: "CLiburing", path: "CModules/CLiburing", pkgConfig: "liburing",
            providers: [.apt(["liburing-dev"])]),
        .systemLibrary(name: "CEpoll", path: "CModules/CEpoll"),
        .systemLibrary(name: "CAffinity", path: "CModules/CAffinity"),
        .systemLibrary(
            name: "CLMDB", path: "CModules/CLMDB", pkgConfig: "lmdb",
            providers: [.apt(["liblmdb-dev"])]),
        .systemLibrary(
            name: "CJemalloc", path: "CModules/CJemalloc", pkgConfig: "jemalloc",
            providers: [.apt(["libjemalloc-dev"])]),
        .systemLibrary(
            name: "COpenSSL", path: "CModules/COpenSSL", pkgConfig: "openssl",
            providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CLZ4", path: "CModules/CLZ4", pkgConfig: "liblz4",
            providers: [.apt(["liblz4-dev"])]),
        .systemLibrary(
            name: "CPostgres", path: "CModules/CPostgres", pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"])]),
        .systemLibrary(
            name: "CZlib", path: "CModules/CZlib", pkgConfig: "zlib",
            providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CSpawn", path: "CModules/CSpawn"),
        .systemLibrary(
            name: "CExpat", path: "CModules/CExpat", pkgConfig: "expat",
            providers: [.apt(["libexpat1-dev"])]),
        .target(name: "CBitKernels", path: "CModules/CBitKernels"),

        .target(name: "MartletBase", swiftSettings: memorySafe),
        .target(name: "MartletFiles", swiftSettings: common),
        .target(
            name: "MartletBits", dependencies: ["MartletBase", "CBitKernels"],
            swiftSettings: common + lifetimes),
        .target(
            name: "MartletCondition", dependencies: ["MartletBase", "MartletBits"],
            swiftSettings: common),
        .target(name: "MartletWire", dependencies: ["MartletBase"], swiftSettings: common),
        .target(
            name: "MartletCrypto", dependencies: ["MartletFiles", "COpenSSL"],
            swiftSettings: common),
        .target(
            name: "MartletTicket",
            dependencies: [
                "MartletBase", "MartletWire", "MartletCrypto", "MartletFiles", "COpenSSL",
            ],
            swiftSettings: common),
        .target(
            name: "MartletRows",
            dependencies: ["MartletBase", "MartletBits", "MartletCrypto"],
            swiftSettings: common),
        .target(
            name: "MartletEngine",
            dependencies: ["MartletBase", "MartletBits", "MartletCondition", "MartletRows"],
            swiftSettings: common),
        .target(
            name: "MartletDelivery",
            dependencies: ["MartletBase", "MartletBits", "MartletRows", "MartletEngine"],
            swiftSettings: common),
        .target(
            name: "MartletStore",
            dependencies: [
                "MartletBase", "MartletFiles", "MartletRows", "MartletEngine", "MartletCrypto",
                "CLMDB",
            ],
            swiftSettings: common),
        .target(
            name: "MartletLZ4", dependencies: ["MartletStore", "CLZ4"], swiftSettings: common),
        .target(
            name: "MartletForwarding",
            dependencies: ["MartletBase", "MartletRows", "MartletEngine"],
            swiftSettings: memorySafe),
        .target(
            name: "MartletCluster", dependencies: ["MartletBase", "MartletRows"],
            swiftSettings: memorySafe),
        .target(
            name: "MartletPostgres", dependencies: ["MartletCluster", "MartletRows", "CPostgres"],
            swiftSettings: common),
        .target(
            name: "MartletTransport", dependencies: ["CAffinity"], swiftSettings: common),
        .target(
            name: "MartletRing", dependencies: ["MartletTransport", "CLiburing"],
            swiftSettings: common),
        .target(
            name: "MartletTLS", dependencies: ["MartletFiles", "COpenSSL"],
            swiftSettings: common),
        .target(
            name: "MartletEpoll", dependencies: ["MartletTransport", "CEpoll"],
            swiftSettings: common),
        .target(
            name: "Martlet",
            dependencies: [
                "MartletBase", "MartletBits", "MartletCondition", "MartletWire", "MartletRows",
                "MartletEngine", "MartletDelivery", "MartletStore", "MartletTransport",
                "MartletRing", "MartletEpoll", "MartletCrypto", "MartletTicket", "MartletTLS",
                "MartletCluster", "MartletFiles", "MartletForwarding",
                .target(name: "CJemalloc", condition: .when(traits: ["Jemalloc"])),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: common),
        .target(
            name: "MartletClient",
            dependencies: [
                "MartletBase", "MartletFiles", "MartletWire",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: memorySafe),
        .target(
            name: "MartletClientTLS",
            dependencies: [
                "MartletBase", "MartletClient", "MartletFiles",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: memorySafe),
        .target(
            name: "MartletGateway",
            dependencies: [
                "Martlet", "MartletCrypto", "MartletFiles", "MartletRows", "MartletTicket",
                "MartletTransport", "CZlib",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: common),
        .target(name: "MartletAnswers", dependencies: ["Martlet"], swiftSettings: common),
        .target(
            name: "MartletAccess",
            dependencies: ["Martlet", "MartletAnswers", "MartletCrypto", "MartletFiles"],
            swiftSettings: common),
        .target(name: "CConsoleFiles", path: "CModules/CConsoleFiles"),
        .target(
            name: "MartletConsole",
            dependencies: [
                "Martlet", "MartletAccess", "MartletAnswers", "MartletCrypto", "MartletFiles",
                "MartletGateway", "CConsoleFiles",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            exclude: ["Web"], swiftSettings: common),
        .target(
            name: "MartletPush",
            dependencies: [
                "MartletBase", "MartletCrypto", "MartletFiles", "MartletTransport", "MartletWire",
                "COpenSSL",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: common),
        .target(
            name: "MartletWebPush",
            dependencies: [
                "Martlet", "MartletRows", "MartletWire", "MartletCrypto", "MartletTicket",
                "MartletTransport", "MartletGateway", "MartletBridge", "MartletPush",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ],
            swiftSettings: common),
        .target(
            name: "MartletBridge",
            dependencies: [
                "Martlet", "MartletBits", "MartletCrypto", "MartletEngine", "MartletFiles",
                "MartletPush",
                "MartletRows", "MartletTransport", "MartletWire",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: common),
        .target(
            name: "MartletXMPP",
            dependencies: [
                "Martlet", "MartletFiles", "MartletTransport", "MartletGateway", "CExpat",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: common),
        .target(
            name: "MartletCommand",
            dependencies: [
                "Martlet", "MartletAccess", "MartletAnswers", "MartletClient", "MartletCluster",
                "MartletEngine", "MartletFiles", "MartletRows", "MartletStore", "MartletTLS",
                "MartletTransport", "CSpawn",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: common),
        .executableTarget(
            name: "martlet",
            dependencies: [
                "Martlet", "MartletBridge", "MartletClientTLS", "MartletCluster", "MartletCommand",
                "MartletConsole", "MartletGateway", "MartletLZ4", "MartletPostgres",
                "MartletRows", "MartletStore", "MartletTransport", "MartletWebPush", "MartletXMPP",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "Sources/Program",
            swiftSettings: common),
        // What `make run` builds: no module that needs a TLS library of its own.
        .executableTarget(
            name: "martlet-core", dependencies: ["MartletCommand"], path: "Sources/CoreProgram",
            swiftSettings: common),

        .target(
            name: "MartletSimulator",
            dependencies: [
                "Martlet", "MartletBase", "MartletWire", "MartletRows", "MartletEngine",
                "MartletStore", "MartletTransport", "MartletClient", "MartletCluster", "CAffinity",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: common),
        .executableTarget(
            name: "martlet-sim",
            dependencies: [
                "MartletSimulator",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Sources/SimulatorCommand",
            swiftSettings: common),

        // The benchmarks are no products: who embeds Martlet does not build them, and the tests' build
        // does. The load generator and the floors are C that shares nothing with what is measured.
        .executableTarget(
            name: "bench-broker", dependencies: ["Martlet", "MartletTLS"],
            path: "Benchmarks/Sources/BenchBroker", swiftSettings: common),
        .executableTarget(
            name: "bench-store",
            dependencies: [
                "Martlet", "MartletBase", "MartletBits", "MartletCondition", "MartletDelivery",
                "MartletEngine", "MartletRing", "MartletRows", "MartletStore", "MartletTransport",
                "MartletWire",
            ],
            path: "Benchmarks/Sources/BenchStore", swiftSettings: common),
        .executableTarget(
            name: "bench-log", dependencies: ["MartletCluster", "MartletPostgres", "MartletRows"],
            path: "Benchmarks/Sources/BenchLog", swiftSettings: common),
        .executableTarget(
            name: "bench-load", path: "Benchmarks/Sources/MartletLoad",
            linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        .executableTarget(
            name: "bench-rows", path: "Benchmarks/Sources/BenchRows",
            linkerSettings: [.linkedLibrary("lmdb")]),
        .executableTarget(
            name: "bench-ring", path: "Benchmarks/Sources/RingFloor",
            linkerSettings: [.linkedLibrary("uring")]),
        .executableTarget(
            name: "bench-floor", path: "Benchmarks/Sources/KernelFloor",
            linkerSettings: [.linkedLibrary("uring")]),

        // What tests of several modules rest on.
        .target(
            name: "EngineBench", dependencies: ["MartletEngine", "MartletRows", "MartletBase"],
            path: "Tests/EngineBench",
            swiftSettings: common),
        .target(
            name: "TLSPeers", dependencies: ["COpenSSL"], path: "Tests/TLSPeers",
            swiftSettings: common),
        .target(
            name: "FormerStores",
            dependencies: [
                "MartletStore", "MartletEngine", "MartletRows", "MartletBase", "CLMDB",
            ],
            path: "Tests/FormerStores", swiftSettings: common),
        .target(
            name: "RedoBench",
            dependencies: [
                "EngineBench", "MartletLZ4", "MartletStore", "MartletEngine", "MartletRows",
                "MartletBase",
            ],
            path: "Tests/RedoBench", swiftSettings: common),
        .testTarget(
            name: "MartletBitsTests", dependencies: ["MartletBits", "MartletBase"],
            swiftSettings: common),
        .testTarget(
            name: "MartletConditionTests",
            dependencies: ["MartletCondition", "MartletBits", "MartletBase"],
            swiftSettings: common),
        .testTarget(
            name: "MartletWireTests", dependencies: ["MartletWire", "MartletBase"],
            swiftSettings: common),
        .testTarget(
            name: "MartletCryptoTests",
            dependencies: ["MartletBase", "MartletCrypto", "MartletTicket"],
            swiftSettings: common),
        .testTarget(
            name: "MartletTicketTests", dependencies: ["MartletTicket", "MartletBase"],
            swiftSettings: common),
        .testTarget(
            name: "MartletTransportTests",
            dependencies: ["MartletRing", "MartletEpoll", "MartletTransport", "CAffinity"],
            swiftSettings: common),
        .testTarget(
            name: "MartletTLSTests", dependencies: ["MartletTLS", "TLSPeers", "COpenSSL"],
            swiftSettings: common),
        .testTarget(
            name: "MartletEngineTests",
            dependencies: [
                "EngineBench", "MartletEngine", "MartletRows", "MartletCondition", "MartletBits",
                "MartletBase",
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletDeliveryTests",
            dependencies: [
                "EngineBench", "MartletDelivery", "MartletEngine", "MartletRows", "MartletBits",
                "MartletBase",
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletForwardingTests",
            dependencies: [
                "EngineBench", "MartletForwarding", "MartletEngine", "MartletRows", "MartletBase",
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletStoreTests",
            dependencies: [
                "MartletStore", "MartletLZ4", "MartletEngine", "MartletRows", "EngineBench",
                "FormerStores", "RedoBench", "MartletCondition", "MartletBits", "MartletBase",
                "MartletFiles", "CLMDB",
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletClusterTests",
            dependencies: [
                "Martlet", "MartletBits", "MartletBridge", "MartletClient", "MartletCluster",
                "MartletCrypto", "MartletGateway", "MartletLZ4", "MartletPostgres", "MartletEngine",
                "MartletRows", "MartletBase", "MartletSimulator", "MartletStore", "MartletTLS",
                "MartletWire", "CSpawn",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletMailboxTests",
            dependencies: [
                "EngineBench", "RedoBench", "MartletStore", "MartletDelivery", "MartletEngine",
                "MartletRows", "MartletBase",
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletTests",
            dependencies: [
                "Martlet", "MartletClient", "MartletClientTLS", "MartletCrypto", "MartletStore",
                "MartletTLS", "TLSPeers", "MartletEngine", "MartletRows", "MartletBase",
                "MartletTransport",
                "MartletWire",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletGatewayTests",
            dependencies: [
                "MartletGateway", "Martlet", "MartletAccess", "MartletAnswers", "MartletClient",
                "MartletConsole", "MartletTransport", "MartletWire", "MartletBase", "COpenSSL",
                "CZlib",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletBridgeTests",
            dependencies: [
                "MartletBridge", "Martlet", "MartletPush", "MartletRows", "MartletWire",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletXMPPTests",
            dependencies: [
                "MartletXMPP", "MartletGateway", "Martlet", "MartletClient",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletPushTests",
            dependencies: [
                "MartletPush", "MartletBase", "MartletCrypto", "MartletTransport",
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: common),
        .testTarget(
            name: "MartletCommandTests",
            dependencies: [
                "MartletAnswers", "MartletCommand", "MartletFiles", "Martlet", "CLMDB",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: common),
        .testTarget(name: "TidyTests", swiftSettings: common),
        .testTarget(
            name: "SimulationTests", dependencies: ["MartletSimulator"], swiftSettings: common),
        .testTarget(
            name: "MartletClientTests",
            dependencies: ["MartletClient", "MartletWire", "MartletBase"],
            swiftSettings: common),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "Martlet", "MartletClient", "MartletStore", "MartletEngine", "MartletRows",
                "MartletWire", "MartletBase", "FormerStores",
            ],
            swiftSettings: common),
    ]
)

// For `make sanitize`, which builds these modules and their tests several times: only what needs no other package.
if Context.environment["MARTLET_WITHOUT_PACKAGES"] != nil {
    package.products.removeAll()
    package.dependencies.removeAll()
    var count: Int
    repeat {
        count = package.targets.count
        let names = Set(package.targets.map(\.name))
        package.targets.removeAll { target in
            target.dependencies.contains { dependency in
                switch dependency {
                case .targetItem(let name, _), .byNameItem(let name, _): !names.contains(name)
                default: true
                }
            }
        }
    } while package.targets.count < count
}
