"""What happens while the sidecar runs: overlays change, workers end, policies change under load."""

import os
import shutil
import signal

from egressnet import EVIL, GOOD, GOOD6, wait_for


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
