// SPDX-License-Identifier: Apache-2.0
//
// Metrics and health for the operator of a gateway (EMB-2). Rests on GatewayMetrics.

import Martlet

extension Route {
    static let operations = [
        Route("metrics", .get, "metrics", access: .anyone) { (_, gateway) in
            GatewayAnswer(
                headers: [("content-type", "text/plain; version=0.0.4; charset=utf-8")],
                body: gateway.metricsText)
        },
        Route("healthz", .get, "healthz", access: .anyone) { (_, gateway) in
            do throws(MartletError) {
                try await gateway.broker.checkWrites()
                return .text("ok\n")
            } catch {
                return .text(error.message + "\n", status: 503)
            }
        },
    ]
}
