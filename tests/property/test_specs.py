"""Thousands of requests, made up from the specs, good ones and bad ones, in sequences that follow the links: no answer is
outside its schema, none is an error of the server. The numbers are fixed, so that a run can be repeated: OSB_SEED and
OSB_EXAMPLES change them."""

import json
import os
import subprocess

from conftest import HERE, ROOT
from egressnet import Net
from osbserver import EXECD, Server

SEED = os.environ.get("OSB_SEED", "20260101")
CHECKS = ("no_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance,use_after_free,ensure_resource_availability,ignored_auth")


def explore(schemathesis, spec, kind, url, examples, headers=(), more=(), wrap=(), reach=(), **env):
    examples = os.environ.get("OSB_EXAMPLES", str(examples))
    command = [*wrap, schemathesis, "--config-file", os.path.join(HERE, "schemathesis.toml"), "run", os.path.join(ROOT, "specs", spec), "--url", url, "--seed", SEED,
               "--generation-database", "none", "--max-examples", examples, "--workers", "1", "--request-timeout", "60",
               "--phases", "examples,coverage,fuzzing,stateful", "--suppress-health-check", "all", "--checks", CHECKS,
               "--warnings", "off", "--no-color", *more]
    for header in headers:
        command += ["-H", header]
    full = {k: v for k, v in os.environ.items() if not k.startswith(("SCHEMATHESIS", "HYPOTHESIS"))}
    full.pop("PYTHONDONTWRITEBYTECODE", None)
    full.update(env, SCHEMATHESIS_HOOKS="hooks", PYTHONPATH=HERE, OSB_PROPERTY=kind,
                PYTHONPYCACHEPREFIX=os.path.join(ROOT, "build", "property", "pycache"))
    tally = full["OSB_TALLY"] = os.path.join(ROOT, "build", "property", f"{kind}-{os.getpid()}.json")
    r = subprocess.run(command, env=full, capture_output=True, text=True, cwd=os.path.join(ROOT, "build"))
    print(r.stdout[-30000:], r.stderr[-3000:])
    assert r.returncode == 0, f"seed {SEED}, {examples} examples:\n{r.stdout[-12000:]}\n{r.stderr[-3000:]}"
    with open(tally) as f:
        answered = json.load(f)
    os.unlink(tally)
    for operation, counts in sorted(answered.items()):
        print(operation, counts)
    total = sum(sum(c.values()) for c in answered.values())
    assert total > 15 * len(answered), f"only {total} requests"
    never = [o for o in reach if not any(200 <= int(s) < 300 for s in answered.get(o, {}))]
    assert not never, f"no request succeeded: {never}"
    print(f"{kind}: seed {SEED}, {total} requests to {len(answered)} operations")


def test_lifecycle(schemathesis):
    server = Server('[images]\npull_policy = "missing"\n').start()
    try:
        server.create()
        explore(schemathesis, "sandbox-lifecycle.yml", "lifecycle", server.url, 15, [f"OPEN-SANDBOX-API-KEY: {server.key}"],
                reach=["POST /sandboxes", "GET /sandboxes", "GET /sandboxes/{sandboxId}", "POST /sandboxes/{sandboxId}/fork",
                       "POST /sandboxes/{sandboxId}/snapshots", "GET /sandboxes/{sandboxId}/endpoints/{port}",
                       "POST /sandboxes/{sandboxId}/renew-expiration", "POST /images/import", "POST /pools",
                       "PUT /pools/{name}"],
                OSB_URL=server.url + "/v1", OSB_KEY=server.key)
        assert server.process.poll() is None, server.log_tail()
        server.ok("GET", "/health")
    finally:
        server.close()


def test_execd(schemathesis):
    """Inside a sandbox, where it may run and remove what it likes."""
    server = Server().start()
    try:
        id = server.create(timeout=None)["id"]
        server.run(id, "echo kept > /tmp/keep; mkdir -p /tmp/p/d && cd /tmp/p && for i in 1 2 3; do echo $i > f$i; echo $i > d/g$i; done")
        endpoint = server.ok("GET", f"/v1/sandboxes/{id}/endpoints/{EXECD}")
        # One that never ends, and one that needs an upgrade to a WebSocket, have tests of their own.
        explore(schemathesis, "execd.yml", "execd", "http://" + endpoint["endpoint"], 15,
                [f"{k}: {v}" for k, v in endpoint.get("headers", {}).items()], ["--exclude-path", "/metrics/watch"],
                reach=["POST /command", "POST /session", "POST /session/{id}/run", "POST /pty", "GET /files/info",
                       "POST /directories", "GET /command/status/{id}", "GET /proxy/{rest}", "GET /metrics"])
        assert server.ping(id)
        assert server.run(id, "echo alive")[0] == "alive"
    finally:
        server.close()


def test_egress(schemathesis):
    net = Net()
    try:
        net.start({"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.good.test"}]},
                  OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="true", OPENSANDBOX_EGRESS_CA_DIR=net.dir)
        explore(schemathesis, "egress.yml", "egress", "http://127.0.0.1:18080", 12, [f"OPENSANDBOX-EGRESS-AUTH: {net.token}"],
                reach=["PUT /policy", "PATCH /policy", "POST /credential-vault", "GET /events"],
                wrap=["ip", "netns", "exec", net.gateway], OSB_URL="http://127.0.0.1:18080", OSB_KEY=net.token)
        assert net.sidecar.poll() is None, net.log()
        assert net.healthy()
        assert "Sanitizer" not in net.log() and "runtime error:" not in net.log(), net.log()[-6000:]
    finally:
        net.close()
