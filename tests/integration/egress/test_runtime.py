"""What happens while the sidecar runs: overlays change, workers end, policies change under load."""

import json
import os
import shutil
import signal
import threading

from egressnet import EVIL, EVIL6, GOOD, GOOD6, wait_for


def write(n, name, *lines):
    """As an editor does: another file, renamed into place."""
    with open(f"{n.dir}/rules/.{name}.tmp", "w") as f:
        f.write("".join(line + "\n" for line in lines))
    os.rename(f"{n.dir}/rules/.{name}.tmp", f"{n.dir}/rules/{name}")


def test_overlays_are_watched_and_bindings_with_them(fresh):
    """Long before the minute of the unasked look has passed, and although the directory comes only later."""
    n = fresh()
    n.start({"defaultAction": "allow", "egress": []}, OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="true", OPENSANDBOX_EGRESS_CA_DIR=n.dir)

    def rcode(name="good.test"):
        return n.lookup(name)["rcode"]
    assert rcode() == "NOERROR"
    os.mkdir(f"{n.dir}/rules")
    write(n, "deny.always", "good.test")
    wait_for("the overlay", lambda: rcode() == "NXDOMAIN")
    with open(f"{n.dir}/rules/deny.always", "w") as f:  # in place
        f.write("evil.test\n")
    wait_for("the change", lambda: rcode() == "NOERROR" and rcode("evil.test") == "NXDOMAIN")
    write(n, "deny.always", "http://nonsense")
    wait_for("a complaint", lambda: "the old one stays" in n.log())
    assert rcode("evil.test") == "NXDOMAIN"
    os.unlink(f"{n.dir}/rules/deny.always")
    wait_for("its end", lambda: rcode("evil.test") == "NOERROR")

    # A binding needs a rule that allows its host: here the operator's, and when that goes it has no effect.
    write(n, "allow.always", "good.test")
    binding = {"name": "b", "match": {"hosts": ["good.test"], "schemes": ["http"], "ports": [80]}, "auth": {"type": "bearer", "credential": "t"}}
    vault = {"credentials": [{"name": "t", "source": {"type": "inline", "value": "overlay-secret"}}], "bindings": [binding]}
    wait_for("the rule", lambda: n.api("POST", "/credential-vault", vault).code == 201)

    def fetch():
        return n.inside(n.sandbox, "curl", "-s", "-m", "10", "-A", "", "-H", "Accept:", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: good.test",
                        f"http://{GOOD}/", check=False).stdout
    assert fetch() == "200" and b"overlay-secret".hex() in n.world_log()
    os.unlink(f"{n.dir}/rules/allow.always")
    wait_for("the warning", lambda: "leave a binding without effect" in n.log())
    arrived = n.world_log().count(b"overlay-secret".hex())
    assert fetch() == "403"
    shutil.rmtree(f"{n.dir}/rules")  # and the directory itself may come and go
    os.mkdir(f"{n.dir}/rules")
    write(n, "allow.always", "good.test")
    wait_for("the rule again", lambda: fetch() == "200")
    assert n.world_log().count(b"overlay-secret".hex()) > arrived
    assert "overlay-secret" not in n.log()


def test_a_worker_that_ends_unasked_is_started_again(fresh):
    n = fresh()
    n.start({"egress": [{"action": "allow", "target": "good.test"}]}, args=["--supervise"], OPENSANDBOX_EGRESS_STATE_DIR=n.dir)
    for sig in (signal.SIGTERM, signal.SIGKILL):
        old = wait_for("a worker", n.worker)
        os.kill(old, sig)
        wait_for("another", lambda: (n.worker() or old) != old and n.healthy())
        assert n.lookup("good.test")["answers"] == [GOOD]
        assert n.connect(EVIL) != "ok"
    assert n.stop() == 0  # asked, it ends, and its worker with it


class Held:
    """A connection of the sandbox that stays open."""

    def __init__(self, n, ip):
        self.note = f"{n.dir}/held-{ip.replace(':', '-')}"
        self.thread = threading.Thread(target=lambda: n.py(f"hold({ip!r}, {self.note!r})", timeout=120))
        self.thread.start()
        self.goes_on()

    def count(self):
        if os.path.exists(self.note + ".end"):
            with open(self.note + ".end") as f:
                raise AssertionError(f"the connection broke: {f.read()}")
        if not os.path.exists(self.note):
            return 0
        with open(self.note) as f:
            return int(f.read())

    def goes_on(self):
        before = self.count()
        wait_for("its bytes", lambda: self.count() > before + 2)

    def is_cut(self):
        wait_for("its end", lambda: os.path.exists(self.note + ".end"))
        self.thread.join()


def test_a_crash_breaks_nothing_that_is_allowed(fresh):
    """Open connections go on, also those whose address is not known any more, and new ones need no new lookup."""
    n = fresh()
    n.start({"egress": [{"action": "allow", "target": t} for t in ("good.test", "short.good.test")]}, args=["--supervise"],
            OPENSANDBOX_EGRESS_STATE_DIR=n.dir)
    for rtype, ip in (("A", GOOD), ("AAAA", GOOD6)):
        assert n.lookup("good.test", rtype)["answers"] == [ip]
    held = [Held(n, ip) for ip in (GOOD, GOOD6)]
    n.inside(n.gateway, "nft", "flush", "set", "inet", "opensandbox", "learned_v6")  # as if its time were over
    for _ in range(2):
        old = wait_for("a worker", n.worker)
        os.kill(old, signal.SIGKILL)
        for h in held:
            h.goes_on()
        wait_for("another", lambda: (n.worker() or old) != old and n.healthy())
        for h in held:
            h.goes_on()
        assert n.connect(GOOD) == "ok"
        assert n.connect(GOOD6) != "ok" and n.connect(EVIL) != "ok" and n.connect(EVIL6) != "ok"
    # Names came back with their addresses: what is denied now is cut, and nothing else.
    n.policy("+good.test")
    held[0].goes_on()
    n.policy("+short.good.test")
    for h in held:
        h.is_cut()
    assert n.connect(GOOD) != "ok"


def test_patching_under_load(fresh):
    """While rules come and go: nothing denied passes, nothing allowed breaks."""
    n = fresh()
    n.start({"egress": [{"action": "allow", "target": t} for t in ("good.test", "198.51.100.53", "2001:db8:100::10")]})
    assert n.lookup("good.test")["answers"] == [GOOD]
    held = [Held(n, ip) for ip in (GOOD, GOOD6)]
    stop, got = f"{n.dir}/stop", []
    always = {f"connect({GOOD!r})": "ok", f"connect({GOOD6!r})": "ok", "connect('198.51.100.53', 9999)": "ok",
              "lookup('good.test')['answers']": str([GOOD]), "lookup('good.test', tcp=True)['rcode']": "NOERROR"}
    never = [f"connect({EVIL!r})", f"connect({EVIL6!r}, timeout=2)", f"connect({EVIL!r}, 9999, 'udp', timeout=1)", "connect('10.77.0.1')"]
    names = ["lookup('drop.evil.test')['rcode']", "lookup('evil.test', 'AAAA', tcp=True)['rcode']"]
    tries = [*always, *never, *names]
    load = threading.Thread(target=lambda: got.extend(n.py(f"hammer({stop!r}, json.loads({json.dumps(tries)!r}))", timeout=120)))
    load.start()
    try:
        for i in range(40):
            rules = [{"action": "allow", "target": f"h{i}.test"}, {"action": "deny", "target": f"10.{i}.0.0/16"},
                     {"action": "allow", "target": f"2001:db8:7:{i}::/64"}, {"action": "deny", "target": "evil.test"}]
            assert n.api("PATCH", "/policy", rules).code == 200
            assert n.api("DELETE", "/policy", [r["target"] for r in rules]).code == 200
        for h in held:
            h.goes_on()
    finally:
        open(stop, "w").close()
        load.join()
    counts = dict(zip(tries, got))
    for expression, want in always.items():
        assert set(counts[expression]) == {want}, (expression, counts[expression])
    for expression in never:
        assert counts[expression] and "ok" not in counts[expression], (expression, counts[expression])
    for expression in names:
        assert set(counts[expression]) == {"NXDOMAIN"}, (expression, counts[expression])
    assert not n.asked("drop.evil.test") and not n.asked("evil.test")
    lines = [line.split()[1] for line in n.world_log().splitlines() if line.startswith(("tcp ", "udp ", "ping "))]
    assert set(lines) <= {GOOD, GOOD6, "198.51.100.53"}, set(lines)
    assert "made anew" not in n.log()
    n.policy("+other.test")
    for h in held:
        h.is_cut()


COLLECTOR = """import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open(sys.argv[1], "ab").write(self.path.encode() + b" " + body + b"\\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("0.0.0.0", 4318), H).serve_forever()
"""


def test_metrics_over_otlp(fresh):
    n = fresh()
    n.background(n.world, "/usr/bin/python3", "-c", COLLECTOR, f"{n.dir}/otlp", log=f"{n.dir}/otlp.log")
    n.start({"egress": [{"action": "allow", "target": "good.test"}, {"action": "allow", "target": "192.0.2.0/24"}]},
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{GOOD}:4318/", OTEL_METRIC_EXPORT_INTERVAL="300",
            OPENSANDBOX_EGRESS_METRICS_EXTRA_ATTRS="team=blue,bad,=x,empty=")
    n.lookup("good.test")
    n.lookup("evil.test")

    def latest():
        if not os.path.exists(f"{n.dir}/otlp"):
            return {}
        with open(f"{n.dir}/otlp") as f:
            lines = [line for line in f if line.endswith("\n")]
        if not lines:  # made, and nothing in it yet
            return {}
        path, _, body = lines[-1].partition(" ")
        scope = json.loads(body)["resourceMetrics"][0]["scopeMetrics"][0]
        assert path == "/v1/metrics" and scope["scope"]["name"] == "opensandbox/egress"
        return {m["name"]: (m.get("sum") or m.get("gauge") or m.get("histogram"))["dataPoints"][0] for m in scope["metrics"]}
    got = wait_for("both lookups", lambda: (lambda m: m and m["egress.policy.denied_total"]["asInt"] == "1" and
                                            m["egress.dns.query.duration"]["count"] == "1" and m)(latest()))
    assert got["egress.nftables.rules.count"]["asInt"] == "3" and int(got["egress.nftables.updates.count"]["asInt"]) >= 2
    assert int(got["egress.system.memory.usage_bytes"]["asInt"]) > 1 << 20 and got["egress.system.cpu.utilization"]["asDouble"] >= 0
    attrs = {a["key"]: a["value"]["stringValue"] for a in got["egress.policy.denied_total"]["attributes"]}
    assert attrs == {"sandbox_id": "sbx-1", "team": "blue"}
