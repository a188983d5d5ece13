#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A cluster on this machine, from nothing: PostgreSQL with a synchronous standby, and three nodes. A device is on the first
# follower and a sender on the second; the active node is killed under load, and what was accepted is counted against what
# has come. Ends clean. `make cluster` runs it. Rests on the program martlet and PostgreSQL 15.
#
#   cluster.sh [PROGRAM [MESSAGES]]

set -u -o pipefail
program=$(realpath "${1:-.build/release/martlet}")
messages=${2:-60}
postgres=/usr/lib/postgresql/15/bin
folder=$(mktemp -d "${TMPDIR:-/tmp}/martlet-cluster-XXXXXX")
base=$((20000 + RANDOM % 20000))
nodes=()

# PostgreSQL refuses root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"
    else
        "$@"
    fi
}

finish() {
    for pid in "${nodes[@]}"; do kill -KILL "$pid" 2>/dev/null; done
    for server in primary standby; do
        [ -d "$folder/$server" ] &&
            as_postgres "$postgres/pg_ctl" stop -s -m immediate -D "$folder/$server" 2>/dev/null
    done
    rm -rf "$folder"
}
trap finish EXIT

fail() { echo "failed: $*" >&2; tail -n 5 "$folder"/*.log >&2; exit 1; }

# PostgreSQL: a primary, and a standby that confirms each commit.
chmod 711 "$folder"
for server in primary standby; do
    mkdir "$folder/$server"
    [ "$(id -u)" = 0 ] && chown postgres "$folder/$server"
    chmod 700 "$folder/$server"
    : >"$folder/$server.log"
    [ "$(id -u)" = 0 ] && chown postgres "$folder/$server.log"
done
as_postgres "$postgres/initdb" -D "$folder/primary" -U martlet -A trust --locale=C -E UTF8 \
    --no-sync --no-instructions >"$folder/initdb.log" 2>&1 || fail "initdb"
settings="-c listen_addresses=127.0.0.1 -c unix_socket_directories="
as_postgres "$postgres/pg_ctl" start -s -w -D "$folder/primary" -l "$folder/primary.log" \
    -o "-p $base $settings" || fail "the primary does not start"
as_postgres "$postgres/pg_basebackup" -d "host=127.0.0.1 port=$base user=martlet application_name=standby" \
    -D "$folder/standby" -X stream -c fast --no-sync -R || fail "pg_basebackup"
as_postgres "$postgres/pg_ctl" start -s -w -D "$folder/standby" -l "$folder/standby.log" \
    -o "-p $((base + 1)) $settings" || fail "the standby does not start"
sql() { "$postgres/psql" -h 127.0.0.1 -p "$base" -U martlet -d postgres -qAtc "$1"; }
sql "alter system set synchronous_standby_names = 'ANY 1 (standby)'"
sql "select pg_reload_conf()" >/dev/null
sql "create database martlet"
log="postgresql://martlet@127.0.0.1:$base,127.0.0.1:$((base + 1))/martlet"
echo "PostgreSQL serves, with a synchronous standby."

# Three nodes.
"$program" cluster init --data "$folder/a" --cluster "$log" >/dev/null || fail "cluster init"
cp -r "$folder/a" "$folder/b"
cp -r "$folder/a" "$folder/c"
port_of() { case $1 in a) echo $((base + 10)) ;; b) echo $((base + 11)) ;; c) echo $((base + 12)) ;; d) echo $((base + 13)) ;; esac; }
start() {
    "$program" serve --data "$folder/$1" --port "$(port_of "$1")" --cluster "$log" --node "$1" \
        --node-address "127.0.0.1:$(($(port_of "$1") + 10))" >"$folder/$1.log" 2>&1 &
    nodes+=($!)
    disown
    eval "pid_$1=$!"
}
for node in a b c; do start $node; done
active() {
    "$program" cluster status --cluster "$log" --json |
        sed -n 's/.*/&/p' | tr '{' '\n' | sed -n '/"role":"active"/s/.*"node":"\([^"]*\)".*/\1/p'
}
for _ in $(seq 100); do leader=$(active) && [ -n "$leader" ] && break; sleep 0.1; done
[ -n "$leader" ] || fail "no node is active"
followers=($(printf '%s\n' a b c | grep -v "$leader"))
echo "Node $leader is active; ${followers[*]} follow."

# A device on one follower, a sender on the other.
"$program" project create tides --data "$folder/${followers[0]}" >"$folder/project.log" || fail "project create"
registration=$(sed -n 's/^Registration key //p' "$folder/project.log")
key=$("$program" key create --name demo --project tides --data "$folder/${followers[1]}" --json |
    sed -n 's/.*"key"[: ]*"\([^"]*\)".*/\1/p')
[ -n "$key" ] || fail "key create"
"$program" listen --project tides --app com.example.tides --topic tides \
    --registration-key "$registration" --port "$(port_of "${followers[0]}")" --state "$folder/device.json" --count "$messages" --timeout 30 --json \
    >"$folder/received.log" 2>"$folder/listen.log" &
listener=$!
for _ in $(seq 100); do grep -q '"ready"' "$folder/received.log" && break; sleep 0.1; done

# Sends a message through a node, again and again until it is accepted.
send() {
    began=$(date +%s%N)
    until MARTLET_KEY=$key "$program" send --project tides --topic tides --data "text=number $2" \
        --idempotency-key "number-$2" --host 127.0.0.1 --port "$(port_of "$1")" \
        >>"$folder/send.log" 2>&1; do
        [ $(($(date +%s%N) - began)) -lt 20000000000 ] || fail "message $2 is not accepted"
        sleep 0.2
    done
}

accepted=0
longest=0
for number in $(seq "$messages"); do
    if [ "$number" = $((messages / 2)) ]; then
        eval "kill -KILL \$pid_$leader"
        echo "Killed node $leader (kill -9) after $accepted accepted messages."
    fi
    send "${followers[1]}" "$number"
    accepted=$((accepted + 1))
    took=$((($(date +%s%N) - began) / 1000000))
    [ "$took" -gt "$longest" ] && longest=$took
done
wait "$listener" || fail "the device has not got everything"
received=$(grep -o 'number [0-9]*' "$folder/received.log" | sort -u | wc -l)
now=$(active)
echo "Accepted $accepted, received $received; the longest send took $longest ms; node $now is active."
[ "$received" = "$accepted" ] || fail "messages are missing"
[ "$now" != "$leader" ] || fail "the killed node is active"

# The killed node comes back as a follower.
start "$leader"
for _ in $(seq 100); do
    "$program" cluster status --cluster "$log" --json | grep -q "\"behind\":[1-9]" || break
    sleep 0.1
done

# The active node freezes, another takes over, and the frozen node cannot write when it goes on.
frozen=$now
eval "kill -STOP \$pid_$frozen"
echo "Froze node $frozen."
# The device says hello to the frozen node, gives up, and connects to another node.
listen() {
    exec "$program" listen --project tides --app com.example.tides --port "$(port_of "$1")" \
        --state "$folder/device.json" --count 2 --timeout 30 --json >"$folder/$2.log" 2>"$folder/listen.log"
}
listen "$frozen" abandoned &
abandoned=$!
disown
sender=$(printf '%s\n' a b c | grep -v "$frozen" | head -n 1)
send "$sender" frozen
kill -KILL $abandoned
listen "$sender" moved &
listener=$!
for _ in $(seq 100); do grep -q 'number frozen' "$folder/moved.log" && break; sleep 0.1; done
eval "kill -CONT \$pid_$frozen"
now=$(active)
[ "$now" != "$frozen" ] || fail "the frozen node is active"
echo "Accepted meanwhile; node $now is active."
# The node that goes on reads the HELLO before it serves others.
sleep 1
send "$frozen" thawed
wait "$listener" || fail "the device has lost its connection to the hello that it had given up"
echo "The device stays where it went."

# A further node joins while the cluster serves.
"$program" cluster join --from "127.0.0.1:$(port_of "$now")" --admin-key "$folder/$now/admin.key" "$folder/d" \
    >/dev/null || fail "cluster join"
start d
send a joined

# All stores are equal.
for _ in $(seq 150); do
    digests=$("$program" cluster verify --json "$folder"/[abcd] 2>"$folder/verify.log" |
        tr ',' '\n' | sed -n 's/.*"digest":"\([^"]*\)".*/\1/p' | sort -u | wc -l)
    [ "$digests" = 1 ] && break
    sleep 0.2
done
[ "$digests" = 1 ] || fail "the stores are not equal"
"$program" cluster verify "$folder"/[abcd] | sed "s|$folder/||"
"$program" cluster status --cluster "$log"
echo "Done."
