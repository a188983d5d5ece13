# SPDX-License-Identifier: Apache-2.0
#
# make run and make test do everything on a fresh Debian 12 with swift on the PATH. make help lists the targets: what stands
# there is the line that begins with ## above a target.

PACKAGES := liburing-dev libjemalloc-dev liblmdb-dev libssl-dev libexpat1-dev
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# For `--version`, in every build; nothing where the sources come without git.
export BUILD_COMMIT := $(shell [ -e .git ] && git rev-parse --short=10 HEAD 2>/dev/null)
SOURCES := Package.swift Sources Tests Benchmarks/Sources
# Folders of which unittest takes the tests in Python.
PYTHON_TESTS := Benchmarks/Harness Tests/Check Tests/Kernels Tests/Measures

.PHONY: run build test test-all check help cluster cluster-soak cluster-upgrade browser-test apns-kills mailbox-histories measures protocol simulate deps python python-sdks python-venv chromium console-test format format-check clean

## The demo: 5,000 devices over real sockets, every number checked. Built without optimisation.
# That takes a third of the time. In a terminal the whole program is built after that, and the demo goes on serving until
# Ctrl-C with the console in a browser.
run: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
run: deps
	swift build --product martlet-core
	@if [ -t 0 ] && [ -t 1 ]; then \
	    .build/debug/martlet-core demo --exit \
	        && echo "Building the gateway and the console, for the demo in a browser" \
	        && swift build --product martlet && .build/debug/martlet demo; \
	else .build/debug/martlet-core demo; fi

## The program, optimised: .build/release/martlet.
build: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
build: deps
	swift build -c release --product martlet

## A cluster on this machine: PostgreSQL with a standby and three nodes; the active one is killed.
# Messages are sent meanwhile.
cluster: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
cluster: deps
	swift build -c release --product martlet
	Examples/cluster.sh .build/release/martlet

## A cluster under load for MINUTES=10, whose processes are killed, frozen, promoted and restarted.
# SEED is that of one history. At the end the script counts accepted messages against delivered ones, and compares the stores.
cluster-soak: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
cluster-soak: deps python
	swift build -c release --product martlet
	python3 -B Tests/Cluster/soak.py .build/release/martlet --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

## A cluster of the program FORMER is upgraded node by node under load.
cluster-upgrade: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
cluster-upgrade: deps python
	swift build -c release --product martlet
	python3 -B Tests/Cluster/upgrade.py $(FORMER) .build/release/martlet

# jemalloc overwrites memory that is new or freed: a read of freed memory then gives wrong results instead of the former
# ones.
test test-all check: export MALLOC_CONF := junk:true

## Builds without optimisation and runs the tests, but for the long ones.
test: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
test: deps python
	swift build --build-tests
	python3 -B Tests/run.py "$$(swift build --show-bin-path)" quick
	for folder in $(PYTHON_TESTS); do python3 -m unittest discover -s $$folder || exit 1; done

## After make test: builds optimised, and runs histories, worlds, clusters, SDKs and browsers, and brokers on epoll.
test-all: PACKAGES += liblz4-dev libpq-dev zlib1g-dev postgresql
test-all: test python-sdks
	swift build -c release --build-tests
	@[ -z "$$CI" ] && [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ] && [ -e $(BROWSER)/installed ] || \
	    echo "The console in a browser is not tested: CI is set, or Chromium, its driver or Selenium is missing (make console-test)"
	python3 -B Tests/run.py "$$(swift build -c release --show-bin-path)" rest

## The edit loop: format and tests of what differs from BASE=HEAD. TESTS="MODULE MODULE.SUITE": these.
check: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
check: deps python
	@python3 Tests/Check/check.py --python "$(PYTHON_TESTS)" $(if $(BASE),--base $(BASE)) $(if $(TESTS),--tests "$(TESTS)")

## How the sources hang together, in figures: AT=COMMIT for another commit, NAMES=1 for what was counted.
measures: python
	@python3 Tests/Measures/measures.py $(if $(AT),--at $(AT)) $(if $(NAMES),--names)

## Makes the codecs of frames and the tables of the article WireProtocol from Protocol/martlet.protocol.
# MartletWireTests.PythonTests compares them.
protocol: python
	python3 -B Protocol/generate.py

## Lists the targets.
help:
	@awk '/^## / { help = substr($$0, 4); next } /^$$/ { help = "" } \
	    help != "" && /^[a-z-]+:/ { name = $$0; sub(/:.*/, "", name); printf "%-18s %s\n", name, help; help = "" }' \
	    $(MAKEFILE_LIST)

## Random histories of mailboxes beside a naive broker: COUNT=100000, or the one with SEED, told.
# With FIRST, those from this seed on; also before SEED, in the same environment.
mailbox-histories: PACKAGES += liblz4-dev libpq-dev zlib1g-dev
mailbox-histories: deps
	swift build -c release --build-tests
	TESTS_MAILBOX_COUNT=$(or $(COUNT),100000) TESTS_MAILBOX_SEED=$(SEED) \
	    TESTS_MAILBOX_FIRST=$(FIRST) \
	    swift test -c release --skip-build --filter MartletMailboxTests.HistoryTests/random

## Simulated worlds: COUNT=10000 from the seed FROM=0 on, or the one with SEED, told line by line.
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

## Installs the official SDKs and other people's senders that tests use, below .build.
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

## Web Push with Firefox from Debian, unmodified but for preferences. Its log is kept below .build.
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

## The bridge to Apple's push service, random answers, kill -9: 100,000 messages. make test has 2000.
apns-kills: python-sdks
	swift build -c release --product martlet
	APNS_MESSAGES=100000 $(SDKS)-apns/bin/python -B Tests/Python/apns_scenarios.py \
	    "$$(swift build -c release --show-bin-path)/martlet" kills

BROWSER := .build/python-browser
## The console in Chromium from Debian, driven by Selenium, both installed if need be.
# make test-all runs the same where both are there, but not where CI is set.
console-test: $(BROWSER)/installed
	swift build -c release --build-tests
	swift test -c release --skip-build --filter EndToEndTests.ConsoleBrowserTests

$(BROWSER)/installed: | chromium

chromium:
	@[ -x /usr/bin/chromedriver ] || $(MAKE) --no-print-directory deps PACKAGES="chromium chromium-driver"

## Formats the sources in place.
format:
	swift format format --in-place --parallel --recursive $(SOURCES)

## Says what make format would change.
format-check:
	swift format lint --strict --parallel --recursive $(SOURCES)

## Removes what was built.
clean:
	swift package clean

# What Martlet costs beside others, and the figures to reach: Benchmarks/README.md.
include Benchmarks/bench.mk

include Packaging/package.mk

# On other kernels of Debian, under sanitizers, and before a real Prometheus: Tests/README.md.
include Tests/Kernels/kernel.mk
include Tests/Sanitizers/sanitize.mk
include Tests/Alerts/alerts.mk
