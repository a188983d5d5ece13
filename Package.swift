// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
//
// The arrows between Martlet's modules. They point one way: what is pure (Base, Bits, Condition,
// Wire, Engine, Delivery) never sees what touches the world (Store, Ring, Transport, Martlet, MartletClient). The gateway
// alone knows of HTTP: who embeds Martlet does not build it.

import PackageDescription

let common: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

/// Modules that do without pointers, but for a call of the C library here and there that says `unsafe`: any other unsafe use
/// would be a warning, and warnings are errors.
let memorySafe: Set = [
    "MartletBase", "MartletCluster", "MartletClient", "MartletClientTLS",
]

/// Modules that lend views of their memory: `@_lifetime` lets no view outlive its owner.
let lending: Set = ["MartletBits"]

/// The products of other packages that targets name below.
let products = [
    "async-http-client": ["AsyncHTTPClient"],
    "hummingbird": ["HummingbirdCore", "HummingbirdHTTP2"],
    "swift-argument-parser": ["ArgumentParser"],
    "swift-http-types": ["HTTPTypes"],
    "swift-log": ["Logging"],
    "swift-metrics": ["CoreMetrics"],
    "swift-nio": ["NIOCore", "NIOHTTP1", "NIOPosix", "NIOTLS", "NIOWebSocket"],
    "swift-nio-extras": ["NIOHTTPTypes", "NIOHTTPTypesHTTP1"],
    "swift-nio-http2": ["NIOHTTP2"],
    "swift-nio-ssl": ["NIOSSL"],
    "swift-service-lifecycle": ["ServiceLifecycle", "UnixSignals"],
]

/// Libraries of the system: the module, the name that pkg-config knows, and Debian's package.
let libraries = [
    ("CLiburing", "liburing", "liburing-dev"),
    ("CLMDB", "lmdb", "liblmdb-dev"),
    ("CJemalloc", "jemalloc", "libjemalloc-dev"),
    ("COpenSSL", "openssl", "libssl-dev"),
    ("CLZ4", "liblz4", "liblz4-dev"),
    ("CPostgres", "libpq", "libpq-dev"),
    ("CZlib", "zlib", "zlib1g-dev"),
    ("CExpat", "expat", "libexpat1-dev"),
]

/// The commit, for `--version`. SwiftPM keeps a manifest's result as long as the file and the environment are the same, so a
/// manifest cannot ask git itself: it would not see a new commit. The Makefile asks.
let commit: [CSetting] =
    switch Context.environment["BUILD_COMMIT"] {
    case nil, "": []
    case let digits?: [.define("BUILD_COMMIT", to: digits)]
    }

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
        // Without its traits Hummingbird needs no Foundation and no library of configurations. AsyncHTTPClient builds
        // Configuration and Algorithms in any case, and ServiceLifecycle AsyncAlgorithms: no trait leaves them out.
        .package(
            url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(
            url: "https://github.com/swift-server/async-http-client", from: "1.37.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(name: "CEpoll", path: "CModules/CEpoll"),
        .systemLibrary(name: "CAffinity", path: "CModules/CAffinity"),
        .systemLibrary(name: "CSpawn", path: "CModules/CSpawn"),
        .target(name: "CBitKernels", path: "CModules/CBitKernels"),
        .target(name: "CCommit", path: "CModules/CCommit", cSettings: commit),

        .target(name: "MartletBase"),
        .target(name: "MartletFiles"),
        .target(name: "MartletBits", dependencies: ["MartletBase", "CBitKernels"]),
        .target(name: "MartletCondition", dependencies: ["MartletBase", "MartletBits"]),
        .target(name: "MartletWire", dependencies: ["MartletBase"]),
        .target(
            name: "MartletCrypto", dependencies: ["MartletBase", "MartletFiles", "COpenSSL"]),
        .target(
            name: "MartletRows", dependencies: ["MartletBase", "MartletBits", "MartletCrypto"]),
        .target(
            name: "MartletEngine",
            dependencies: ["MartletBase", "MartletBits", "MartletCondition", "MartletRows"]),
        .target(
            name: "MartletDelivery",
            dependencies: ["MartletBase", "MartletBits", "MartletRows", "MartletEngine"]),
        .target(
            name: "MartletStore",
            dependencies: [
                "MartletBase", "MartletFiles", "MartletRows", "MartletEngine", "MartletCrypto",
                "CLMDB",
            ]),
        .target(
            name: "MartletCluster", dependencies: ["MartletBase", "MartletRows", "MartletEngine"]),
        .target(
            name: "MartletPostgres",
            dependencies: ["MartletCluster", "MartletRows", "CPostgres", "CLZ4"]),
        .target(
            name: "MartletTransport", dependencies: ["MartletBase", "CAffinity", "CEpoll"]),
        .target(
            name: "MartletThreads",
            dependencies: [
                "MartletBase", "MartletBits", "MartletWire", "MartletRows", "MartletEngine",
                "MartletDelivery", "MartletTransport", "CoreMetrics", "Logging",
            ]),
        .target(
            name: "MartletRing", dependencies: ["MartletBase", "MartletTransport", "CLiburing"]),
        .target(
            name: "MartletCommitter",
            dependencies: [
                "MartletBase", "MartletWire", "MartletRows", "MartletEngine", "MartletDelivery",
                "MartletStore", "MartletTransport", "MartletThreads", "MartletRing", "Logging",
            ]),
        .target(
            name: "MartletNode",
            dependencies: [
                "MartletBase", "MartletBits", "MartletWire", "MartletCrypto", "MartletRows",
                "MartletEngine", "MartletStore", "MartletCluster", "MartletTransport",
                "MartletThreads", "MartletCommitter", "CoreMetrics", "Logging",
            ]),
        .target(
            name: "Martlet",
            dependencies: [
                "MartletBase", "MartletBits", "MartletCondition", "MartletWire", "MartletRows",
                "MartletEngine", "MartletDelivery", "MartletStore", "MartletTransport",
                "MartletRing", "MartletCrypto",
                "MartletCluster", "MartletFiles", "MartletThreads", "MartletCommitter",
                "MartletNode",
                .target(name: "CJemalloc", condition: .when(traits: ["Jemalloc"])), "CoreMetrics",
                "Logging",
            ]),
        .target(
            name: "MartletClient",
            dependencies: ["MartletBase", "MartletFiles", "MartletWire", "NIOCore", "NIOPosix"]),
        .target(
            name: "MartletClientTLS",
            dependencies: [
                "MartletBase", "MartletClient", "MartletFiles", "NIOCore", "NIOSSL", "NIOTLS",
            ]),
        .target(
            name: "MartletGateway",
            dependencies: [
                "Martlet", "MartletCrypto", "MartletFiles", "MartletRows", "MartletThreads",
                "MartletTransport", "CZlib", "CoreMetrics", "HTTPTypes", "HummingbirdCore",
                "HummingbirdHTTP2", "Logging", "NIOCore", "NIOHTTP1", "NIOHTTP2", "NIOHTTPTypes",
                "NIOHTTPTypesHTTP1", "NIOPosix", "NIOSSL", "NIOTLS", "NIOWebSocket",
                "ServiceLifecycle",
            ]),
        .target(
            name: "MartletAnswers",
            dependencies: ["Martlet", "MartletCrypto", "MartletFiles", "MartletThreads"]),
        .target(name: "CConsoleFiles", path: "CModules/CConsoleFiles"),
        .target(
            name: "MartletConsole",
            dependencies: [
                "Martlet", "MartletAnswers", "MartletCrypto", "MartletFiles",
                "MartletGateway", "CConsoleFiles", "Logging",
            ], exclude: ["Web"]),
        .target(
            name: "MartletWebPush",
            dependencies: [
                "Martlet", "MartletRows", "MartletThreads", "MartletWire", "MartletCrypto",
                "MartletGateway", "MartletBridge", "CoreMetrics", "Logging", "NIOCore", "NIOPosix",
                "NIOWebSocket",
            ]),
        .target(
            name: "MartletBridge",
            dependencies: [
                "Martlet", "MartletBits", "MartletClient", "MartletCommitter", "MartletCrypto",
                "MartletEngine", "MartletFiles", "MartletRows", "MartletTransport", "MartletWire",
                "AsyncHTTPClient", "CoreMetrics", "Logging", "NIOCore", "NIOHTTP1", "NIOPosix",
                "NIOSSL",
                "ServiceLifecycle",
            ]),
        .target(
            name: "MartletXMPP",
            dependencies: [
                "Martlet", "MartletFiles", "MartletThreads", "MartletTransport", "MartletGateway",
                "CExpat", "CoreMetrics", "Logging", "NIOCore", "NIOPosix", "NIOSSL", "NIOTLS",
                "ServiceLifecycle",
            ]),
        .target(
            name: "MartletCommand",
            dependencies: [
                "Martlet", "MartletAnswers", "MartletClient", "MartletCluster",
                "MartletCrypto", "MartletEngine", "MartletFiles", "MartletRows", "MartletStore",
                "MartletThreads", "MartletTransport", "CSpawn", "ArgumentParser", "Logging",
            ]),
        .executableTarget(
            name: "martlet",
            dependencies: [
                "Martlet", "MartletBridge", "MartletClientTLS", "MartletCluster", "MartletCommand",
                "MartletConsole", "MartletGateway", "MartletPostgres", "MartletRows",
                "MartletStore", "MartletTransport", "MartletWebPush", "MartletXMPP", "CCommit",
                "Logging", "ServiceLifecycle",
            ], path: "Sources/Program"),
        // What `make run` builds: no module that needs a TLS library of its own.
        .executableTarget(
            name: "martlet-core", dependencies: ["MartletCommand", "CCommit"],
            path: "Sources/CoreProgram"),

        .target(
            name: "MartletSimulator",
            dependencies: [
                "Martlet", "MartletBase", "MartletWire", "MartletRows", "MartletEngine",
                "MartletStore", "MartletThreads", "MartletTransport", "MartletClient",
                "MartletCluster", "MartletNode", "CAffinity", "Logging",
            ]),
        .executableTarget(
            name: "martlet-sim", dependencies: ["MartletSimulator", "ArgumentParser"],
            path: "Sources/SimulatorCommand"),

        // The benchmarks are no products: who embeds Martlet does not build them, and the tests' build
        // does. The load generator and the floors are C that shares nothing with what is measured.
        .executableTarget(
            name: "bench-broker", dependencies: ["Martlet", "MartletCrypto"],
            path: "Benchmarks/Sources/BenchBroker"),
        .executableTarget(
            name: "bench-store",
            dependencies: [
                "Martlet", "MartletBase", "MartletBits", "MartletCondition", "MartletDelivery",
                "MartletEngine", "MartletRing", "MartletRows", "MartletStore", "MartletTransport",
                "MartletWire",
            ], path: "Benchmarks/Sources/BenchStore"),
        .executableTarget(
            name: "bench-log", dependencies: ["MartletCluster", "MartletPostgres", "MartletRows"],
            path: "Benchmarks/Sources/BenchLog"),
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
            path: "Tests/EngineBench"),
        .target(name: "TLSPeers", dependencies: ["COpenSSL"], path: "Tests/TLSPeers"),
        .target(name: "TestSupport", path: "Tests/TestSupport"),
        .target(
            name: "RedoBench",
            dependencies: [
                "EngineBench", "MartletPostgres", "MartletStore", "MartletEngine", "MartletRows",
                "MartletBase",
            ], path: "Tests/RedoBench"),
        .testTarget(name: "MartletBitsTests", dependencies: ["MartletBits", "MartletBase"]),
        .testTarget(
            name: "MartletConditionTests",
            dependencies: ["MartletCondition", "MartletBits", "MartletBase"]),
        .testTarget(name: "MartletWireTests", dependencies: ["MartletWire", "MartletBase"]),
        .testTarget(
            name: "MartletCryptoTests",
            dependencies: ["MartletBase", "MartletCrypto", "TLSPeers", "COpenSSL"]),
        .testTarget(
            name: "MartletTransportTests",
            dependencies: [
                "MartletRing", "MartletTransport", "MartletBase", "CAffinity",
            ]),
        .testTarget(
            name: "MartletEngineTests",
            dependencies: [
                "EngineBench", "MartletEngine", "MartletRows", "MartletCondition", "MartletBits",
                "MartletBase",
            ]),
        .testTarget(
            name: "MartletDeliveryTests",
            dependencies: [
                "EngineBench", "MartletDelivery", "MartletEngine", "MartletRows", "MartletBits",
                "MartletBase",
            ]),
        .testTarget(
            name: "MartletForwardingTests",
            dependencies: [
                "EngineBench", "MartletCluster", "MartletEngine", "MartletRows", "MartletBase",
            ]),
        .testTarget(
            name: "MartletStoreTests",
            dependencies: [
                "MartletStore", "MartletPostgres", "MartletEngine", "MartletRows", "EngineBench",
                "RedoBench", "MartletCondition", "MartletBits", "MartletBase",
                "MartletFiles", "CLMDB",
            ]),
        .testTarget(
            name: "MartletClusterTests",
            dependencies: [
                "Martlet", "MartletBits", "MartletBridge", "MartletClient", "MartletCluster",
                "MartletCrypto", "MartletGateway", "MartletPostgres", "MartletEngine",
                "MartletNode", "MartletRows", "MartletBase", "MartletSimulator", "MartletStore",
                "MartletWire", "CSpawn", "Logging",
            ]),
        .testTarget(
            name: "MartletMailboxTests",
            dependencies: [
                "EngineBench", "RedoBench", "MartletStore", "MartletDelivery", "MartletEngine",
                "MartletRows", "MartletBase",
            ]),
        .testTarget(
            name: "MartletTests",
            dependencies: [
                "Martlet", "MartletClient", "MartletClientTLS", "MartletCommitter", "MartletCrypto",
                "MartletStore", "TLSPeers", "MartletEngine", "MartletRows",
                "MartletBase", "MartletThreads", "MartletTransport", "MartletWire", "Logging",
            ]),
        .testTarget(
            name: "MartletGatewayTests",
            dependencies: [
                "MartletGateway", "Martlet", "MartletAnswers", "MartletClient",
                "MartletConsole", "MartletThreads", "MartletWire", "MartletBase", "COpenSSL",
                "CZlib", "CoreMetrics", "Logging", "NIOCore", "NIOSSL", "ServiceLifecycle",
                "UnixSignals",
            ]),
        .testTarget(
            name: "MartletBridgeTests",
            dependencies: [
                "MartletBridge", "Martlet", "MartletCrypto", "MartletRows", "MartletWire",
                "AsyncHTTPClient", "NIOSSL",
            ]),
        .testTarget(
            name: "MartletXMPPTests",
            dependencies: [
                "MartletXMPP", "MartletGateway", "Martlet", "MartletClient", "Logging", "NIOCore",
                "NIOPosix", "NIOSSL", "ServiceLifecycle",
            ]),
        .testTarget(
            name: "MartletCommandTests",
            dependencies: [
                "MartletAnswers", "MartletCommand", "MartletFiles", "Martlet", "CLMDB",
                "ArgumentParser",
            ]),
        .testTarget(name: "TidyTests"),
        .testTarget(name: "SimulationTests", dependencies: ["MartletSimulator"]),
        .testTarget(
            name: "MartletClientTests",
            dependencies: ["MartletClient", "MartletWire", "MartletBase"]),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "Martlet", "MartletClient", "MartletStore", "MartletEngine", "MartletRows",
                "MartletWire", "MartletBase",
            ]),
    ]
)

for (module, pkgConfig, debianPackage) in libraries {
    let path = "CModules/\(module)"
    package.targets.append(
        .systemLibrary(
            name: module, path: path, pkgConfig: pkgConfig, providers: [.apt([debianPackage])]))
}

for target in package.targets {
    if target.isTest { target.dependencies.append("TestSupport") }
    target.dependencies = target.dependencies.map { dependency in
        guard case .byNameItem(let name, _) = dependency,
            let package = products.first(where: { $0.value.contains(name) })?.key
        else { return dependency }
        return .product(name: name, package: package)
    }
    // C has no settings of Swift. Of the programs, those in C alone name what they link.
    if target.path?.hasPrefix("CModules/") == true || target.linkerSettings != nil { continue }
    target.swiftSettings = common
    if memorySafe.contains(target.name) { target.swiftSettings?.append(.strictMemorySafety()) }
    if lending.contains(target.name) {
        target.swiftSettings?.append(.enableExperimentalFeature("Lifetimes"))
    }
}

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
