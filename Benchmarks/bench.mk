# SPDX-License-Identifier: Apache-2.0
#
# make bench: everything, within an hour and a half. make bench QUICK=1: under five minutes.
# make bench ONLY=fanout,micro: some sections. make bench-publish REPORT=FOLDER: into the README.

BENCH_PACKAGES := redis-server nats-server mosquitto wrk python3-venv postgresql

.PHONY: bench bench-compare stress bench-publish bench-deps

bench: deps python bench-deps
	python3 Benchmarks/run.py $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

# This tree's broker beside an older commit's: make bench-compare BASE=COMMIT, within ten minutes once
# the base is built. CELLS=fanout,latency: some cells.
bench-compare: deps python
	@[ -n "$(BASE)" ] || { echo "make bench-compare BASE=COMMIT [CELLS=fanout,latency,...]"; exit 2; }
	python3 Benchmarks/compare.py --base $(BASE) $(if $(CELLS),--cells "$(CELLS)")

# Whether the broker can be drowned: within ten minutes; make stress QUICK=1: under two.
# STRANGERS=1000000: so many peers without a credential.
stress: deps python
	python3 Benchmarks/stress.py $(if $(QUICK),--quick) $(if $(STRANGERS),--strangers $(STRANGERS))

bench-publish: python
	python3 Benchmarks/run.py --publish $(REPORT)

# Without the environment of the stand-in for Apple's push service the section apns is not measured.
bench-deps:
	@Benchmarks/install-peers.sh $(BENCH_PACKAGES)
	-@$(MAKE) --no-print-directory $(SDKS)-apns/installed
