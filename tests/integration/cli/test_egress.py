"""osb egress and osb credential-vault, against a real sandbox with a policy and the credential proxy."""

import json

import pytest

from conftest import Osb

POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "good.example"},
                                              {"action": "allow", "target": "203.0.113.0/24"}]}
VAULT = """
credentials:
  - name: token
    source: {type: inline, value: the-secret-itself}
bindings:
  - name: api
    match: {hosts: [good.example], methods: [GET]}
    auth: {type: bearer, credential: token}
"""


@pytest.fixture(scope="module")
def held(server, tmp_path_factory):
    """A sandbox behind a policy, with an interceptor."""
    home = tmp_path_factory.mktemp("held")
    (home / "policy.json").write_text(json.dumps(POLICY))
    osb = Osb(server, home)
    sid = osb.json("sandbox", "create", "-i", "host", "--network-policy-file", str(home / "policy.json"),
                   "--credential-proxy")["id"]
    yield sid
    osb("sandbox", "kill", sid)


def rules(osb, sid):
    p = osb.json("egress", "get", sid)
    assert p["default_action"] == "deny"
    return {r["target"]: r["action"] for r in p["egress"]}


def test_policy(osb, held):
    p = osb.json("egress", "get", held)
    assert (p["default_action"], p["egress"]) == ("deny", POLICY["egress"])
    assert osb.json("egress", "patch", held, "--rule", "allow=other.example", "--rule", "DENY=bad.other.example") == {
        "sandbox_id": held, "patched_rules": 2}
    now = rules(osb, held)
    assert now["other.example"] == "allow" and now["bad.other.example"] == "deny" and now["good.example"] == "allow"
    osb.ok("egress", "patch", held, "--rule", "deny=other.example")
    assert rules(osb, held)["other.example"] == "deny"
    text = osb.ok("egress", "patch", held, "--rule", "allow=*.wild.example")
    assert "Egress Policy Patched" in text and "patched_rules: 1" in text
    assert "deny" in osb.ok("egress", "get", held) and "default_action: deny\n" in osb.ok("egress", "get", held, "-o", "yaml")


def test_rules_can_be_deleted(osb, held):
    osb.ok("egress", "patch", held, "--rule", "allow=short.example", "--rule", "deny=lived.example")
    before = rules(osb, held)
    assert osb.json("egress", "delete", held, "short.example", "never.example") == [
        {"target": "short.example", "status": "deleted"}, {"target": "never.example", "status": "deleted"}]
    assert before.pop("short.example") == "allow" and rules(osb, held) == before
    assert "lived.example" in osb.ok("egress", "delete", held, "lived.example")
    assert "lived.example" not in rules(osb, held)
    assert osb("egress", "delete", held).returncode == 2


def test_policy_of_wrong_rules(osb, held):
    before = rules(osb, held)
    assert osb("egress", "patch", held).returncode == 2
    assert osb("egress", "patch", held, "--rule", "maybe=x.example").returncode == 2
    r = osb("egress", "patch", held, "--rule", "allow=not a name")
    assert r.returncode == 1 and "failed: " in r.stderr and r.stdout == ""
    assert rules(osb, held) == before


def test_vault(osb, held, tmp_path):
    empty = osb("credential-vault", "get", held)
    assert empty.returncode == 1 and "failed: " in empty.stderr and empty.stdout == ""
    (tmp_path / "vault.yaml").write_text(VAULT)
    made = osb.json("credential-vault", "create", held, "--file", str(tmp_path / "vault.yaml"))
    try:
        assert made["revision"] == 1 and "the-secret-itself" not in json.dumps(made)
        assert [c["name"] for c in made["credentials"]] == ["token"] and [b["name"] for b in made["bindings"]] == ["api"]
        assert osb.json("credential-vault", "get", held) == made
        listed = osb.json("credential-vault", "credential", "list", held)
        assert [(c["name"], c["source_type"], c["revision"]) for c in listed] == [("token", "inline", 1)]
        assert osb.json("credential-vault", "credential", "get", held, "token") == listed[0]
        bindings = osb.json("credential-vault", "binding", "list", held)
        assert bindings[0]["match"]["hosts"] == ["good.example"] and bindings[0]["auth"]["type"] == "bearer"
        assert osb.json("credential-vault", "binding", "get", held, "api") == bindings[0]
        assert "token" in osb.ok("credential-vault", "credential", "list", held)
        assert osb("credential-vault", "credential", "get", held, "none").returncode == 1
        again = osb("credential-vault", "create", held, "--file", "-", stdin=VAULT)
        assert again.returncode == 1 and again.stdout == ""
        patched(osb, held)
    finally:
        assert osb.json("credential-vault", "delete", held) == {"sandbox_id": held, "status": "deleted"}
    assert osb("credential-vault", "get", held).returncode == 1


def patched(osb, held):
    change = {"expected_revision": 1, "credentials": {
        "add": [{"name": "second", "source": {"type": "inline", "value": "another-secret"}}]}}
    now = osb.json("credential-vault", "patch", held, "--file", "-", stdin=json.dumps(change))
    assert now["revision"] == 2 and sorted(c["name"] for c in now["credentials"]) == ["second", "token"]
    stale = osb("credential-vault", "patch", held, "--file", "-", stdin=json.dumps(change))
    assert stale.returncode == 1 and stale.stdout == ""
    now = osb.json("credential-vault", "patch", held, "--file", "-", stdin=json.dumps(
        {"expectedRevision": 2, "credentials": {"delete": ["second"]}}))
    assert [c["name"] for c in now["credentials"]] == ["token"]
    for wrong in ('{"expectedRevision": "1", "credentials": {}}', "{}", "[1]"):
        assert osb("credential-vault", "patch", held, "--file", "-", stdin=wrong).returncode == 1
    r = osb("credential-vault", "create", held, "--file", "-", stdin="credentials: {a: b}")
    assert r.returncode == 1 and "must be a list" in r.stderr


def test_the_proxy_needs_a_policy(osb, tmp_path):
    r = osb("sandbox", "create", "-i", "host", "--credential-proxy")
    assert r.returncode == 1 and "network-policy-file" in r.stderr and r.stdout == ""
    (tmp_path / "p.json").write_text("[]")
    r = osb("sandbox", "create", "-i", "host", "--network-policy-file", str(tmp_path / "p.json"))
    assert r.returncode == 1 and r.stdout == ""
