# SPDX-License-Identifier: Apache-2.0
#
# The alert rules before a real Prometheus: Tests/Alerts/alert_test.py.

.PHONY: alert-test cluster-alert-test

## Fires each rule of Examples/prometheus-alerts.yml by its cause.
# Within two minutes once the program is built.
alert-test: deps python
	@Benchmarks/install-peers.sh prometheus openssl
	swift build -c release --product martlet-core
	python3 Tests/Alerts/alert_test.py .build/release/martlet-core .build/alert-test

## Fires the rules for clusters by their causes.
cluster-alert-test: PACKAGES += liblz4-dev libpq-dev postgresql
cluster-alert-test: deps python
	@Benchmarks/install-peers.sh prometheus
	swift build -c release --product martlet
	python3 -B Tests/Alerts/cluster_alert_test.py .build/release/martlet .build/cluster-alert-test
