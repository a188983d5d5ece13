# SPDX-License-Identifier: Apache-2.0
#
# Single operations: what a loop does for a delivery without a kernel, what the kernel takes for an
# entry of its ring, and what stands beside them. Rests on bench-store and bench-ring.

from tools import Folder, lines, table


def run(binaries, progress, report):
    progress(1, 1, "single operations")
    with Folder() as folder:
        found = lines([f"{binaries}/bench-store", "micro", f"{folder}/data"])
    found += lines([f"{binaries}/bench-ring"])
    for line in found:
        report.figures("micro", line["kind"], "Martlet", 0, line)
    delivery = [line for line in found if line["kind"].startswith("delivery")]
    for line in delivery:
        if line["bytesAllocated"] >= 0 and "one message a turn" in line["kind"]:
            report.verdict(
                f"bytes allocated per delivery, {line['kind'].split(', ')[1]}", "0",
                f"{line['bytesAllocated']:g}", line["bytesAllocated"] == 0)
    out = [
        "10,000 sessions; what a loop does between hearing of a message and handing sends over. Bytes "
        "are what jemalloc counts for the thread (−1: not linked), so 0 means no allocation.", ""]
    out += table(
        ["delivery path without a kernel", "ns per delivery", "ns per send",
         "bytes allocated per delivery"],
        [[line["kind"], f"{line['nanoseconds']:.2f}", f"{line['nanosecondsPerSend']:.1f}",
          f"{line['bytesAllocated']:g}"] for line in delivery]) + [""]
    out += table(
        ["single operation", "ns each"],
        [[line["kind"], f"{line['nanoseconds']:,.1f}"] for line in found
         if not line["kind"].startswith("delivery")])
    report.section("Single operations", "\n".join(out))
