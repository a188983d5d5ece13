# SPDX-License-Identifier: Apache-2.0
#
# The tests, and a broker on all its doors, under sanitizers and valgrind: Tests/Sanitizers/sanitize.sh.

SANITIZERS := address address-debug undefined thread memcheck

.PHONY: sanitize sanitize-short $(addprefix sanitize-,$(SANITIZERS))

## The tests, and a broker at every door, under each sanitizer and valgrind: hours.
# Each builds everything anew. make sanitize-thread: one of them.
sanitize: $(addprefix sanitize-,$(SANITIZERS))

## The modules that need no other package, under AddressSanitizer, as CI runs them.
sanitize-short: PACKAGES += liblz4-dev libpq-dev
sanitize-short: deps
	Tests/Sanitizers/sanitize.sh short

$(addprefix sanitize-,$(SANITIZERS)): PACKAGES += liblz4-dev libpq-dev postgresql valgrind
$(addprefix sanitize-,$(SANITIZERS)): sanitize-%: deps python python-sdks
	Tests/Sanitizers/sanitize.sh $*
