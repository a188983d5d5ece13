# SPDX-License-Identifier: Apache-2.0
#
# make bench: everything, within an hour and a half. make bench QUICK=1: under five minutes.
# make bench ONLY=fanout,micro: some sections. make bench-publish REPORT=FOLDER: into Benchmarks/README.md.

BENCH_PACKAGES := redis-server nats-server mosquitto wrk python3-venv postgresql

.PHONY: bench bench-compare stress bench-publish bench-deps

## Martlet beside Redis, NATS, Mosquitto and the kernel floor. QUICK=1: minutes; ONLY=fanout: a section.
bench: deps python bench-deps
	python3 Benchmarks/run.py $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

## This tree's broker beside that of BASE=COMMIT. CELLS=fanout,latency: some cells.
# Within ten minutes once the base is built.
bench-compare: deps python
	@[ -n "$(BASE)" ] || { echo "make bench-compare BASE=COMMIT [CELLS=fanout,latency,...]"; exit 2; }
	python3 Benchmarks/compare.py --base $(BASE) $(if $(CELLS),--cells "$(CELLS)")

## Whether the broker can be drowned: ten minutes. QUICK=1: two.
# STRANGERS=1000000: so many peers without a credential.
stress: deps python
	python3 Benchmarks/stress.py $(if $(QUICK),--quick) $(if $(STRANGERS),--strangers $(STRANGERS))

## Puts the report in REPORT=FOLDER into the README.
bench-publish: python
	python3 Benchmarks/run.py --publish $(REPORT)

# Without the environment of the stand-in for Apple's push service the section apns is not measured.
bench-deps:
	@Benchmarks/install-peers.sh $(BENCH_PACKAGES)
	-@$(MAKE) --no-print-directory $(SDKS)-apns/installed
