# SPDX-License-Identifier: Apache-2.0
#
# make run and make test do everything on a fresh Debian 12 with swift on the PATH.

PACKAGES := liburing-dev libjemalloc-dev liblmdb-dev libssl-dev libexpat1-dev
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
SOURCES := Package.swift Sources Tests Benchmarks/Sources

.PHONY: run build cluster cluster-soak cluster-upgrade test browser-test apns-kills mailbox-histories simulate deps python python-sdks python-venv chromium console-test format format-check clean

# The demo, built without optimisation, which takes a third of the time. In a terminal the whole program is built after
# that, and the demo goes on serving until Ctrl-C with the console in a browser.
run: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
run: deps
	swift build --product martlet-core
	@if [ -t 0 ] && [ -t 1 ]; then \
	    .build/debug/martlet-core demo --exit \
	        && echo "Building the gateway and the console, for the demo in a browser" \
	        && swift build --product martlet && .build/debug/martlet demo; \
	else .build/debug/martlet-core demo; fi

build: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
build: deps
	swift build -c release --product martlet

# A cluster on this machine from nothing: PostgreSQL with a standby and three nodes, of which the active one is killed
# while messages are sent.
cluster: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
cluster: deps
	swift build -c release --product martlet
	Examples/cluster.sh .build/release/martlet

# A cluster under load for MINUTES, while its processes are killed, frozen, promoted and restarted. At the end the script
# counts accepted messages against delivered ones, and compares the stores.
cluster-soak: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
cluster-soak: deps python
	swift build -c release --product martlet
	python3 -B Tests/Cluster/soak.py .build/release/martlet --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

# A cluster of the program FORMER is upgraded node by node under load.
cluster-upgrade: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
cluster-upgrade: deps python
	swift build -c release --product martlet
	python3 -B Tests/Cluster/upgrade.py $(FORMER) .build/release/martlet

# Tests that wait for sockets run by themselves and two at a time: beside those that compute, or that
# block, those that are asynchronous would wait for a thread. Histories of a cluster's log compute.
OVER_SOCKETS := '^(MartletClientTests|MartletTests|MartletGatewayTests|MartletPushTests|MartletXMPPTests|EndToEndTests)\.|^MartletClusterTests\.(Cluster|Operator|Postgres)'
# Tests of brokers run once more on epoll; those of the transports themselves run on both at once.
ON_EPOLL := '^(MartletTests|EndToEndTests)\.'

# What the tests need beside what the programs need. jemalloc overwrites memory that is new or freed: a read of freed
# memory then gives wrong results instead of the former ones.
test: export MALLOC_CONF := junk:true
test: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
test: deps python python-sdks
	swift build -c release --build-tests
	@[ -z "$$CI" ] && [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ] && [ -e $(BROWSER)/installed ] || \
	    echo "The console in a browser is not tested: CI is set, or Chromium, its driver or Selenium is missing (make console-test)"
	swift test -c release --skip-build --skip $(OVER_SOCKETS)
	swift test -c release --skip-build --filter $(OVER_SOCKETS) \
	    --experimental-maximum-parallelization-width 2
	MARTLET_TRANSPORT=epoll swift test -c release --skip-build --filter $(ON_EPOLL) \
	    --experimental-maximum-parallelization-width 2
	python3 -m unittest discover -s Benchmarks/Harness
	python3 -m unittest discover -s Tests/Kernels

# Random histories of mailboxes beside a naive broker: COUNT of them from seed FIRST on, or the one
# with SEED, told; with FIRST those before it are run in the same environment.
mailbox-histories: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
mailbox-histories: deps
	swift build -c release --build-tests
	TESTS_MAILBOX_COUNT=$(or $(COUNT),100000) TESTS_MAILBOX_SEED=$(SEED) \
	    TESTS_MAILBOX_FIRST=$(FIRST) \
	    swift test -c release --skip-build --filter MartletMailboxTests.HistoryTests/random

# Simulated worlds from the seed FROM on, COUNT of them; or the one with SEED, told line by line.
simulate: deps
	swift build -c release --product martlet-sim
	.build/release/martlet-sim $(if $(SEED),--seed $(SEED) --trace,\
	    --seeds "$(or $(FROM),0)..<$$(( $(or $(FROM),0) + $(or $(COUNT),10000) ))")

# Installs what is missing, and says what that is.
deps:
	@missing=""; \
	for package in $(PACKAGES); do \
	    [ "$$(dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null)" = installed ] \
	        || missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ]; then \
	    echo "Installing the Debian packages$$missing"; \
	    $(SUDO) apt-get update -q \
	        && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
	            --no-install-recommends $$missing; \
	fi

# A second implementation of the protocol, in Python, is among the tests.
python:
	@command -v python3 >/dev/null || $(MAKE) --no-print-directory deps PACKAGES=python3

# The official clients that call the gateway in its tests, and other people's senders, in environments of their own:
# -newest has the newest official clients that there are, which app servers install today, -push has pywebpush, which
# sends through the Web Push door, -xmpp has slixmpp, an app server over XMPP, and -apns has aioapns, which sends to
# Apple's push service, and h2, the HTTP/2 of the server that stands in for it.
SDKS := .build/python-sdks
python-sdks: $(foreach kind,sdks sdks-newest sdks-push sdks-xmpp sdks-apns,.build/python-$(kind)/installed)

# An environment of Python below .build with the versions of its file. Made once, and again when the file changes.
.build/python-%/installed: Tests/Python/requirements-%.txt | python-venv
	@echo "Installing into $(@D): $$(tr '\n' ' ' < $<)"
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --requirement $<
	touch $@

python-venv: python
	@python3 -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory deps PACKAGES=python3-venv

# Firefox from Debian, unmodified but for preferences, at the Web Push door. Its log is kept below .build.
browser-test: python-sdks
	@command -v firefox-esr >/dev/null || { \
	    echo "Installing the Debian package firefox-esr"; \
	    { $(SUDO) apt-get update -q \
	        && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
	            --no-install-recommends firefox-esr; } >/dev/null 2>&1 || true; \
	}
	@command -v firefox-esr >/dev/null || { \
	    echo "browser-test: skipped, the package firefox-esr cannot be installed"; exit 0; } \
	    && swift build -c release --product martlet \
	    && $(SDKS)-push/bin/python -B Tests/Python/push_browser.py \
	        "$$(swift build -c release --show-bin-path)/martlet" firefox-esr .build/browser-test.log

# The bridge to Apple's push service with random answers and kill -9: 100,000 messages. `make test` has 2000.
apns-kills: python-sdks
	swift build -c release --product martlet
	APNS_MESSAGES=100000 $(SDKS)-apns/bin/python -B Tests/Python/apns_scenarios.py \
	    "$$(swift build -c release --show-bin-path)/martlet" kills

# The console in Chromium from Debian, driven by Selenium, both installed if need be. `make test` runs the same where both
# are there, but not where CI is set.
BROWSER := .build/python-browser
console-test: $(BROWSER)/installed
	swift build -c release --build-tests
	swift test -c release --skip-build --filter EndToEndTests.ConsoleBrowserTests

$(BROWSER)/installed: | chromium

chromium:
	@[ -x /usr/bin/chromedriver ] || $(MAKE) --no-print-directory deps PACKAGES="chromium chromium-driver"

format:
	swift format format --in-place --parallel --recursive $(SOURCES)

format-check:
	swift format lint --strict --parallel --recursive $(SOURCES)

clean:
	swift package clean

# What Martlet costs beside others, and the figures to reach: Benchmarks/README.md.
include Benchmarks/bench.mk

include Packaging/package.mk

# On other kernels of Debian, under sanitizers, and before a real Prometheus: Tests/README.md.
include Tests/Kernels/kernel.mk
include Tests/Sanitizers/sanitize.mk
include Tests/Alerts/alerts.mk
