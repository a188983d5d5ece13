# SPDX-License-Identifier: Apache-2.0
#
# Where the gateway's time goes under load: perf's samples of the process, each counted for the first
# function, from the innermost outwards, that a pattern below knows. Rests on gateway_load.py and perf.
#
#     Harness/gateway_profile.py BINARIES [token|topic] [CONNECTIONS] [SECONDS]
#
# BINARIES is a folder with martlet and bench-load, as run.py takes it.

import collections
import re
import subprocess
import sys

from gateway_load import Gateway

# The first pattern that fits a frame's symbol or object decides. Frames that fit none, as memcpy does,
# are their callers'.
OWNERS = [(name, re.compile(pattern)) for name, pattern in [
    ("kernel: commit, fsync and files", r"^(__x64_sys_)?(f(data)?sync|do_fsync|vfs_fsync|ext4_|jbd2_|"
     r"blk_|submit_bio|pwrite|vfs_write|vfs_iter_write|vfs_writev|btrfs_|xfs_|ovl_|do_writepages|"
     r"filemap_|io_fsync)"),
    ("kernel: TCP over loopback", r"^(tcp_|__tcp_|inet_|ip_|__ip_|sock_|__sock_|__sys_(send|recv)|"
     r"__x64_sys_(send|recv)|net_rx_|__netif_|dev_|__dev_|loopback_|skb_|__skb_|sk_|lock_sock|"
     r"release_sock|nf_|unix_)"),
    ("kernel: epoll, eventfd", r"^(ep_|epoll|do_epoll|__x64_sys_epoll|eventfd_|do_eventfd|timerfd_)"),
    ("kernel: wakes and waits of threads", r"^(futex_|do_futex|__futex|__x64_sys_futex|schedule|"
     r"__schedule|try_to_wake_up|wake_up_|sched_|finish_task_switch|pick_next|dequeue_|enqueue_|"
     r"__x64_sys_sched)"),
    ("kernel: io_uring", r"^(io_|__io_|__x64_sys_io_uring|__do_sys_io_uring)"),
    ("kernel: the rest", r"^(entry_SYSCALL|do_syscall_64|asm_|syscall_)"),
    ("reference counts", r"^_?swift_(retain|release|bridgeObject|unknownObject|weak|unowned|nonatomic|"
     r"isUniquely)|swift::RefCounts|RefCounts"),
    ("allocation", r"^(je_|malloc|free|calloc|realloc|posix_memalign|aligned_alloc|tcache|arena_|"
     r"swift_(alloc|dealloc|slow|initStack)|_swift_release_dealloc|rtree_|sdallocx|mallocx|cache_bin)|"
     r"jemalloc"),
    ("Swift's types and generics at run time", r"^swift_(get|check|conforms|dynamicCast|project|"
     r"instantiate|initClass)|swift_getGeneric|swift::Metadata|__swift_instantiate|"
     r"_swift_(get|instantiate|conforms)"),
    ("Swift concurrency: tasks, hops, locals", r"^swift_(task|job|async|continuation|default?Actor|"
     r"defaultActor|distributed|taskGroup)|swift::(AsyncTask|runJob|TaskLocal)|libswift_Concurrency|"
     r"libdispatch|^_dispatch"),
    ("JSON", r"JSON"),
    ("keys and fingerprints", r"\$s.*6Crypto|CCryptoBoringSSL|sha256|SHA256|HMAC"),
    ("the gateway", r"\$s.*14MartletGateway"),
    ("metrics", r"\$s.*(7Metrics|11CoreMetrics)"),
    ("Hummingbird", r"\$s.*(11Hummingbird|15HummingbirdCore|9HTTPTypes|12NIOHTTPTypes)"),
    ("NIO: HTTP/1.1", r"\$s.*8NIOHTTP1|c_nio_llhttp|llhttp"),
    ("NIO: loops, channels, futures", r"\$s.*(7NIOCore|8NIOPosix|14NIOConcurrency|8NIOExtras|9NIOEmbed|"
     r"3NIO)|CNIO"),
    ("the broker: store (LMDB)", r"^mdb_|liblmdb|\$s.*12MartletStore"),
    ("the broker: the rest", r"\$s.*[0-9]Martlet|io_uring_"),
    ("logging", r"\$s.*7Logging"),
    ("Foundation and the standard library", r"Foundation|\$s[Ss]"),
]]
# Parts of a request, with all that they call. They are only seen where they do not wait.
PARTS = [(name, re.compile(pattern)) for name, pattern in [
    ("the message read from the body", r"14MartletGateway14MessageRequest.*4body"),
    ("of it, JSON", r"JSONParser|9JSONValue.*7parsing"),
    ("who may", r"14MartletGateway.*12authenticate"),
    ("whether it is repeated", r"14MartletGateway10RetryTable"),
    ("metrics of HTTP", r"14MartletGateway(0B7Metrics|10Prometheus|6Series)"),
    ("the transaction but for its commit", r"12MartletStore5StoreC5write|9CommitterC6commit"),
]]
HEAD = re.compile(r"^(.+?)\s+(\d+)(?:/(\d+))?\s")
FRAME = re.compile(r"^\s+[0-9a-f]+ (.+) \((.*)\)$")


def owner(stack):
    for frame in stack:
        for name, pattern in OWNERS:
            if pattern.search(frame):
                return name
    return "unknown"


def samples(text):
    """(thread, the frames of its stack, the innermost first)"""
    thread, stack = "", []
    for line in text.splitlines() + [""]:
        frame = FRAME.match(line)
        if frame:
            symbol, place = frame.groups()
            symbol = re.sub(r"\+0x[0-9a-f]+$", "", symbol)
            stack.append(f"{symbol} {place if place.startswith('[') else place.rsplit('/', 1)[-1]}")
        elif line.strip():
            thread = HEAD.match(line).group(1).strip()
        elif stack:
            yield thread, stack
            stack = []


def main():
    binaries, target, connections, seconds, *_ = sys.argv[1:] + ["token", "16", "8"][len(sys.argv) - 2:]
    with Gateway(binaries) as gateway:
        data = gateway.server.folder / "perf.data"
        gateway.measure(gateway.http, target, int(connections), 1)
        recording = subprocess.Popen(
            ["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-p", str(gateway.pid),
             "-o", str(data)], stdin=subprocess.DEVNULL)
        figures = gateway.measure(gateway.http, target, int(connections), int(seconds))
        recording.terminate()
        recording.wait()
        gateway.check()
        text = subprocess.run(
            ["perf", "script", "-i", str(data), "-F", "comm,tid,ip,sym,dso", "-f"],
            capture_output=True, text=True).stdout
    owners, threads, parts, unknown = (collections.Counter() for _ in range(4))
    for thread, stack in samples(text):
        name = owner(stack)
        owners[name] += 1
        threads[thread] += 1
        for part, pattern in PARTS:
            parts[part] += any(pattern.search(frame) for frame in stack)
        if name == "unknown" or name.startswith("Foundation") or name.endswith("the rest"):
            unknown[name[:10], stack[0]] += 1
    print(f"{target}, {connections} connections: " + ", ".join(
        f"{name} {value:.4g}" for name, value in figures.items()))
    for title, counts in [("thread", threads), ("owner", owners), ("part", parts),
                          ("innermost", unknown)]:
        total = max(1, sum(owners.values()))
        print(f"\n{title}, of {total} samples")
        for name, count in counts.most_common(25):
            print(f"{count / total:6.1%}  {name}")


if __name__ == "__main__":
    main()
