#!/bin/bash
# A sandbox's life on a machine with version 2 control groups: its limits, an out-of-memory, too many processes, pause,
# resume, a restart of the server, and nothing left in the end. Says "walked" when all of it was right.
set -eu
export PATH=/repo/bin:$PATH OPEN_SANDBOX_API_KEY=key OPEN_SANDBOX_DOMAIN=127.0.0.1:8080
die() { echo "FAILED: $*"; cat /result/server.log; exit 1; }
server() { opensandbox-server --config /root/server.toml >>/result/server.log 2>&1 & pid=$!; for _ in $(seq 600); do kill -0 $pid 2>/dev/null || break; curl -sf http://127.0.0.1:8080/health >/dev/null && return; sleep 0.1; done; die "no server"; }
osb() { command osb --request-timeout 300 "$@"; }
is() { local got; got=$(cat "$1"); [ "$got" = "$2" ] || die "$1 is '$got', not '$2'"; echo "ok $1: $got"; }

[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || die "not version 2"
printf '[server]\nport = 8080\napi_key = "key"\n[oci]\nstart_timeout_seconds = 120\n' >/root/server.toml
server
id=$(osb sandbox create -i host --ready-timeout 300s --resource cpu=500m --resource memory=96Mi --resource pids=50 \
     --resource io-write-bps=4Mi -o json | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p')
group=/sys/fs/cgroup/opensandbox/$id
is $group/work/memory.max $((96 << 20))
is $group/work/pids.max 50
is $group/work/cpu.max "50000 100000"
grep -q "wbps=4194304" $group/io.max || die "io.max: $(cat $group/io.max)"
[ "$(grep -c . $group/work/cgroup.procs)" -ge 1 ] || die "no process in work"

out=$(osb exec $id -- sh -c 'cat /proc/self/cgroup; cat /sys/fs/cgroup/memory.max')
[[ $out == *0::/* && $out == *$((96 << 20))* ]] || die "inside: $out"
osb exec $id -- sh -c 'head -c 300M /dev/zero | tail -c 299M >/dev/null' && die "300 MB fit into 96" || echo "ok out of memory: exit $?"
grep -q "oom_kill [1-9]" $group/work/memory.events || die "$(cat $group/work/memory.events)"
osb exec $id -- sh -c 'for i in $(seq 100); do sleep 1000 & done' >/dev/null 2>&1 && die "100 processes fit into 50" || echo "ok too many processes: refused"
osb exec $id -- true || die "it does not answer any more"

osb sandbox pause $id >/dev/null
is $group/cgroup.freeze 1
osb sandbox resume $id >/dev/null
is $group/cgroup.freeze 0
kill -9 $pid
server
osb sandbox get $id -o json | grep -q Running || die "it did not survive the server"
osb sandbox kill $id >/dev/null
for _ in $(seq 300); do [ -e $group ] || break; sleep 0.1; done
[ ! -e $group ] || die "$group is left"
echo walked
