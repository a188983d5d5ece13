# SPDX-License-Identifier: Apache-2.0
#
# `make -f Benchmarks/bench.mk bench`: everything, half an hour and more. With QUICK=1: under five minutes.

.PHONY: bench
bench:
	python3 Benchmarks/run.py $(if $(QUICK),--quick)
