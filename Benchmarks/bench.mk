# SPDX-License-Identifier: Apache-2.0
#
# `make bench`: everything, half an hour and more. `make bench QUICK=1`: under five minutes.
# Included by the Makefile at the top.

.PHONY: bench
bench:
	python3 Benchmarks/run.py $(if $(QUICK),--quick)
