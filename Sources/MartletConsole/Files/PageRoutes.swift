// SPDX-License-Identifier: Apache-2.0
//
// The files of the pages, out of the program. A browser asks again for a file, and gets 304 for an unchanged file. Rests
// on CConsoleFiles, which has the folder `Web`.

import CConsoleFiles
import Martlet
import MartletCrypto
import MartletGateway

/// A file of the console's pages.
package struct PageFile: Sendable {
    let name: String
    package let bytes: [UInt8]
    /// SHA-256 of the bytes, in quotes as the header `etag` has it.
    let tag: String

    /// All files of the folder `Web`.
    package static let all: [String: PageFile] = {
        var files: [String: PageFile] = [:]
        for index in 0..<martlet_console_file_count {
            let file = martlet_console_file(index)
            let name = String(cString: file.name)
            let bytes = Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
            files[name] = PageFile(
                name: name, bytes: bytes, tag: "\"\(Base64URL.encode(SHA256.hash(bytes)))\"")
        }
        return files
    }()

    var contentType: String {
        switch name.split(separator: ".").last {
        case "html": "text/html; charset=UTF-8"
        case "css": "text/css; charset=UTF-8"
        case "js": "text/javascript; charset=UTF-8"
        case "svg": "image/svg+xml"
        default: "application/octet-stream"
        }
    }

    func answer(to call: GatewayCall) -> GatewayAnswer {
        let headers = SafetyHeaders.ofPages + [("etag", tag)]
        if call.header("if-none-match") == tag {
            return GatewayAnswer(status: 304, headers: headers)
        }
        return GatewayAnswer(headers: [("content-type", contentType)] + headers, body: bytes)
    }
}

extension Console {
    /// The routes of the pages, for everybody: the pages have no secret.
    var pageRoutes: [Route] {
        [
            Route("console", .get, "console", access: .anyone) { (_, _) in
                GatewayAnswer(status: 308, headers: [("location", "/console/")])
            },
            Route("console/page", .get, "console/", access: .anyone) { (call, _) in
                try Self.file("index.html", call)
            },
            Route("console/page", .get, "console/{file}", access: .anyone) { (call, _) in
                try Self.file(call["file"], call)
            },
        ]
    }

    private static func file(_ name: String, _ call: GatewayCall) throws -> GatewayAnswer {
        guard let file = PageFile.all[name] else {
            throw GatewayError(.notFound, "Nothing is served at this path.")
        }
        return file.answer(to: call)
    }
}
