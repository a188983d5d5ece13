# SPDX-License-Identifier: Apache-2.0
#
# The program and its tests on other kernels of Debian, in an emulator: Tests/Kernels/kernel_test.py.

KERNEL_PACKAGES := qemu-system-x86 e2fsprogs

.PHONY: kernel-test

## The demo and the tests of transports and deliveries on Debian's kernels, in an emulator.
# Over io_uring, over epoll and where io_uring is denied: on Debian 12's own kernel and on the newest kernel of its
# backports. KERNELS=backports: one of the two. ACCELERATOR=tcg: without /dev/kvm. ONLY="epoll demo": some steps.
kernel-test: deps python
	@$(MAKE) --no-print-directory deps PACKAGES="$(KERNEL_PACKAGES)"
	swift build -c release --product martlet-core
	swift build -c release --build-tests
	python3 Tests/Kernels/kernel_test.py .build/release .build/kernel-test \
	    $(if $(KERNELS),--kernels $(KERNELS)) $(if $(ACCELERATOR),--accelerator $(ACCELERATOR)) \
	    $(if $(ONLY),--only "$(ONLY)")
