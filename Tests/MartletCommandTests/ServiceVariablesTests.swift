// SPDX-License-Identifier: Apache-2.0
//
// Variables that Kubernetes sets beside a service called `martlet` (OPS-2), told from settings. Rests on
// ServiceVariables.

import MartletCommand
import Testing

@Suite("Variables of services")
struct ServiceVariablesTests {
    @Test(
        "OPS-2 what Kubernetes sets for a service is no setting",
        arguments: [
            ("MARTLET_PORT", "tcp://10.0.0.1:5228"), ("MARTLET_PORT", "udp://[fd00::1]:5228"),
            ("MARTLET_SERVICE_HOST", "10.0.0.1"), ("MARTLET_SERVICE_HOST", "fd00::1"),
            ("MARTLET_SERVICE_PORT", "5228"), ("MARTLET_SERVICE_PORT_DEVICES", "5228"),
            ("MARTLET_SERVICE_PORT_HTTP_2", "443"),
            ("MARTLET_PORT_5228_TCP", "tcp://10.0.0.1:5228"),
            ("MARTLET_PORT_5228_TCP_PROTO", "tcp"), ("MARTLET_PORT_5228_SCTP_PROTO", "sctp"),
            ("MARTLET_PORT_5228_TCP_PORT", "5228"), ("MARTLET_PORT_5228_TCP_ADDR", "10.0.0.1"),
            ("MARTLET_GATEWAY_PORT", "tcp://10.0.0.2:8080"),
            ("MARTLET_GATEWAY_V2_SERVICE_HOST", "10.0.0.2"),
        ])
    func services(name: String, value: String) {
        #expect(ServiceVariables.contain(name, value))
    }

    @Test(
        "OPS-2 a setting, and a name or a value of another shape, is not passed over",
        arguments: [
            ("MARTLET_PORT", "5228"), ("MARTLET_PORT", ""), ("MARTLET_PORT", "http://10.0.0.1:80"),
            ("MARTLET_PORT", "tcp://10.0.0.1"), ("MARTLET_HOST", "10.0.0.1"),
            ("MARTLET_SERVICE_HOST", "harbour"), ("MARTLET_SERVICE_HOST", "10.0.0.0/8"),
            ("MARTLET_SERVICE_PORT", "tcp"), ("MARTLET_SERVICE_PORT", "65536"),
            ("MARTLET_PORT_TCP", "tcp://10.0.0.1:5228"), ("MARTLET_PORT_5228_HTTP", "5228"),
            ("MARTLET_PORT_5228_TCP_NAME", "tcp"), ("MARTLET_SERVICE", "10.0.0.1"),
            ("MARTLET_LOG_LEVEL", "debug"), ("MARTLETS_SERVICE_HOST", "10.0.0.1"),
            ("MARTLET_service_HOST", "10.0.0.1"), ("MARTLET_XMPP", "10.0.0.1:5235"),
        ])
    func settings(name: String, value: String) {
        #expect(!ServiceVariables.contain(name, value))
    }
}
