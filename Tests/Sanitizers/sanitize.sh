#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests, and a broker on all its doors, under a tool that reports a wrong use of memory or a race.
#
#     sanitize.sh short | address | address-debug | undefined | thread | memcheck
#
# short: the tests of rows, sets, the engine, the store, the protocol and crypto, under AddressSanitizer; CI runs it. Each of
# the others runs the tests that it can say something about, and then clients at every door for TESTS_DOORS_SECONDS
# (default: 300). TESTS_FILTER: only tests that match this.
#
# Each kind is built into a folder of its own below .build/sanitize, without jemalloc, since the tools bring a malloc. Every
# process writes what it reports into a file of its own, processes that tests start too. One report fails the run, whatever
# the tests say; a test that fails fails it as well. Leaks are not looked for: at its end a broker frees little.
set -euo pipefail
cd "$(dirname "$0")/../.."

kind=${1:?short, address, address-debug, undefined, thread or memcheck}
here=$PWD/Tests/Sanitizers
scratch=$PWD/.build/sanitize/$kind
reports=$scratch/reports
configuration=release
flags=()
skipped=()
# These have memory of their own and need no other package.
alone='^Martlet(Bits|Condition|Crypto|Engine|Store|Wire)Tests\.'
case $kind in
short)
    flags=(--sanitize=address)
    export MARTLET_WITHOUT_PACKAGES=1
    : "${TESTS_FILTER:=$alone}"
    # Without packages SwiftPM removes the versions of all packages.
    if [ -e Package.resolved ]; then
        mkdir -p "$scratch"
        cp Package.resolved "$scratch/"
        trap 'cp "$scratch/Package.resolved" .' EXIT
    fi
    ;;
address) flags=(--sanitize=address) ;;
address-debug)
    configuration=debug
    flags=(--sanitize=address)
    ;;
# Swift checks itself, and has no such option on Linux. What is left is C: the kernels, and the shims that Swift's importer
# compiles. A fault ends the process with SIGILL, and so fails a test.
undefined) flags=(-Xcc -fsanitize=undefined -Xcc -fsanitize-trap=undefined) ;;
# Tests of one thread race with nobody. And a program built so cannot start where files may not grow.
thread)
    flags=(--sanitize=thread)
    single='^Martlet(Bits|Condition|Crypto|Delivery|Engine|Forwarding|Mailbox|Wire)Tests\.|^(Simulation|Tidy)Tests\.'
    skipped=(--skip "$single|(StartTests/size|GatewayCommandTests/unwrittenFile)")
    ;;
# Under valgrind, which is 30 times slower, sockets run into their deadlines: what serves runs at its doors alone.
memcheck) : "${TESTS_FILTER:=$alone}" ;;
*)
    echo "sanitize.sh: no kind $kind" >&2
    exit 2
    ;;
esac
options=(-c "$configuration" --disable-default-traits --scratch-path "$scratch" "${flags[@]}")

swift build "${options[@]}" --build-tests
products=$(swift build "${options[@]}" --show-bin-path)

rm -rf "$reports"
mkdir -p "$reports"
under=()
case $kind in
short | address*)
    export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=1:log_path=$reports/asan"
    ;;
thread)
    clang -shared -fPIC -O1 -o "$scratch/thread_shim.so" "$here/thread_shim.c" -ldl
    python3 "$here/patch_external.py" "$products"/martlet "$products"/*PackageTests.xctest
    export TSAN_OPTIONS="halt_on_error=0:second_deadlock_stack=1:suppressions=$here/thread.supp:log_path=$reports/tsan"
    export LD_PRELOAD=$scratch/thread_shim.so
    ;;
memcheck)
    # io_uring hands memory to the kernel where valgrind cannot follow it.
    export MARTLET_TRANSPORT=epoll
    under=(valgrind --quiet --leak-check=no --trace-children=yes --error-exitcode=99
        --fair-sched=yes "--log-file=$reports/memcheck.%p")
    ;;
esac

# Histories are slow there, and their number proves nothing about memory.
export TESTS_MAILBOX_COUNT=1000 TESTS_SIMULATE_SEEDS=50 TESTS_SIMULATE_CLUSTER_SEEDS=10
failed=0
tests=("$products"/*PackageTests.xctest)
test_options=(--testing-library swift-testing --experimental-maximum-parallelization-width 2
    "${skipped[@]}")
[ -z "${TESTS_FILTER:-}" ] || test_options+=(--filter "$TESTS_FILTER")
"${under[@]}" "${tests[0]}" "${test_options[@]}" || failed=1
if [ "$kind" != short ]; then
    python3 -B "$here/doors.py" "${TESTS_DOORS_SECONDS:-300}" "${under[@]}" "$products/martlet" || failed=1
fi

# Valgrind makes its files before it has anything to say.
find "$reports" -type f -empty -delete
count=$(find "$reports" -type f | wc -l)
if [ "$count" -gt 0 ]; then
    find "$reports" -type f -exec head -n 60 {} +
    echo "sanitize.sh $kind: $count processes were reported, see $reports"
    exit 1
fi
[ "$failed" = 0 ] && echo "sanitize.sh $kind: no report"
exit "$failed"
