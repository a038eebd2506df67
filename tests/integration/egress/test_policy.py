"""The policy API: shapes, statuses, order of rules, persistence."""

import json
import os
import signal

import pytest


@pytest.fixture(autouse=True)
def reset(net):
    net.policy()


def rules(net):
    return [(r["action"], r["target"]) for r in net.api("GET", "/policy").json()["policy"]["egress"]]


def test_shapes(net):
    r = net.api("GET", "/policy")
    assert (r.code, r.headers["content-type"]) == (200, "application/json")
    assert r.body.endswith("\n")
    assert r.json() == {"status": "ok", "mode": "deny_all", "enforcementMode": "dns+nft",
                        "policy": {"egress": [], "defaultAction": "deny"}}
    r = net.api("POST", "/policy", {"defaultAction": "allow"})
    assert r.json() == {"status": "ok", "mode": "allow_all", "enforcementMode": "dns+nft"}
    r = net.api("PUT", "/policy", {"egress": [{"action": "allow", "target": "a.test"}]})
    assert r.json()["mode"] == "enforcing"
    for raw in ("{}", "null", " {} "):
        assert net.api("POST", "/policy", raw=raw).json() == {"status": "ok", "mode": "deny_all", "enforcementMode": "dns+nft"}
    r = net.api("POST", "/policy", raw="  ").json()
    assert r["mode"] == "deny_all" and r["reason"] and "enforcementMode" not in r


def test_authentication_comes_first(net):
    for token in (False, "wrong", "secret-toke", "secret-token "):
        for method in ("GET", "POST", "TRACE"):
            r = net.api(method, "/policy", token=token)
            if token != "secret-token ":  # an HTTP parser takes the space away
                assert (r.code, r.body) == (401, "unauthorized\n"), (token, method)
    assert net.api("GET", "/healthz", token=False).code == 200
    assert net.api("GET", "/healthz").body == "ok"


def test_wrong_methods_and_paths(net):
    r = net.api("TRACE", "/policy")
    assert r.code == 405 and {"GET", "POST", "PUT", "PATCH", "DELETE"} <= set(r.headers["allow"].split(", "))
    for path in ("/policy/", "/nothing", "/"):
        r = net.api("GET", path)
        assert (r.code, r.headers["x-content-type-options"]) == (404, "nosniff")


@pytest.mark.parametrize("body", [
    '{"defaultAction":"block"}', '{"defaultAction":"alow"}', '{"defaultAction":1}', '{"egress":{}}', "[]", "x", '{"egress":[]} {}',
    '{"egress":[{"action":"permit","target":"a.test"}]}', '{"egress":[{"action":"allow"}]}', '{"egress":[{"action":"allow","target":" "}]}',
    '{"egress":[{"action":"allow","target":"http://a.test"}]}', '{"egress":[{"action":"allow","target":"a.test:443"}]}',
    '{"egress":[{"action":"allow","target":"10.0.0.0/33"}]}', '{"egress":[{"action":"allow","target":"01.2.3.4"}]}',
    '{"egress":[{"action":"allow","target":"*"}]}', '{"egress":[{"action":"allow","target":"a.*.b"}]}', '{"egress":["a.test"]}'])
def test_what_cannot_be_meant_is_refused(net, body):
    net.policy("+kept.test")
    r = net.api("POST", "/policy", raw=body)
    assert r.code == 400 and r.headers["content-type"] == "text/plain; charset=utf-8" and r.body.endswith("\n"), r
    assert rules(net) == [("allow", "kept.test")]


def test_words_in_any_case_and_blank_means_deny(net):
    r = net.api("POST", "/policy", raw='{"DefaultAction":" ALLOW ","EGRESS":[{"Action":"","Target":" A.test "}],"extra":1}')
    assert r.code == 200
    assert net.api("GET", "/policy").json()["policy"] == {"egress": [{"action": "deny", "target": "A.test"}], "defaultAction": "allow"}


def test_patch_goes_to_the_front(net):
    net.policy("+*.mozilla.test", "+b.test")
    r = net.api("PATCH", "/policy", [{"action": "deny", "target": "www.mozilla.test"}, {"action": "allow", "target": "B.TEST"},
                                     {"action": "deny", "target": "b.test"}])
    assert r.code == 200 and "policy" not in r.json()
    assert rules(net) == [("deny", "www.mozilla.test"), ("allow", "B.TEST"), ("allow", "*.mozilla.test")]
    for raw in ("", "[]", "{}", '[{"action":"maybe","target":"a.test"}]'):
        assert net.api("PATCH", "/policy", raw=raw).code == 400


def test_delete_is_by_text(net):
    net.policy("+Code.test", "+10.0.0.0/8", "-10.0.0.1")
    r = net.api("DELETE", "/policy", ["10.0.0.2"])
    assert r.code == 200 and r.json()["reason"] == "no matching targets found"
    r = net.api("DELETE", "/policy", [" code.TEST ", "10.0.0.1"])
    assert r.code == 200 and "reason" not in r.json()
    assert rules(net) == [("allow", "10.0.0.0/8")]
    for raw in ("", "[]", "[1]", '[" "]', '"x"'):
        assert net.api("DELETE", "/policy", raw=raw).code == 400


def test_too_many_rules(net):
    many = [{"action": "allow", "target": f"h{i}.test"} for i in range(4097)]
    with open(f"{net.dir}/many.json", "w") as f:
        json.dump({"egress": many}, f)
    assert net.api("PUT", "/policy", raw=f"@{net.dir}/many.json").code == 413
    with open(f"{net.dir}/many.json", "w") as f:
        json.dump({"egress": many[:4096]}, f)
    assert net.api("PUT", "/policy", raw=f"@{net.dir}/many.json").code == 200
    assert net.api("PATCH", "/policy", [{"action": "allow", "target": "one.more.test"}]).code == 413


def test_first_match_in_the_list_decides(net):
    net.policy("+*.good.test", "-api.good.test", "+good.test")
    assert net.lookup("api.good.test")["rcode"] == "NOERROR"
    net.policy("-api.good.test", "+*.good.test")
    assert net.lookup("api.good.test")["rcode"] == "NXDOMAIN"
    assert net.lookup("good.test")["rcode"] == "NXDOMAIN"  # a wildcard is not the name itself


def test_survives_kill_and_overlays(fresh):
    n = fresh()
    os.mkdir(f"{n.dir}/rules")
    with open(f"{n.dir}/rules/deny.always", "w") as f:
        f.write("# never\nevil.test\n\n")
    with open(f"{n.dir}/rules/allow.always", "w") as f:
        f.write("good.test\n")
    n.start({"egress": []}, OPENSANDBOX_EGRESS_POLICY_FILE=f"{n.dir}/policy.json")
    assert n.lookup("good.test")["rcode"] == "NOERROR"
    n.policy("+evil.test", "+www.good.test")
    assert n.lookup("evil.test")["rcode"] == "NXDOMAIN"
    assert [r["target"] for r in n.api("GET", "/policy").json()["policy"]["egress"]] == ["evil.test", "www.good.test"]
    assert n.connect("198.51.100.66") != "ok"
    n.stop(signal.SIGKILL)
    # Nothing answers, and what was closed stays closed.
    assert n.lookup("www.good.test", timeout=2)["rcode"] == "TIMEOUT"
    assert n.connect("198.51.100.66") != "ok"
    n.restart()
    assert n.lookup("www.good.test")["rcode"] == "NOERROR"
    assert n.connect("198.51.100.10") == "ok"


@pytest.mark.parametrize("env", [{"OPENSANDBOX_EGRESS_RULES": "{"}, {"OPENSANDBOX_EGRESS_DNS_UPSTREAM": "dns.test"},
                                 {"OPENSANDBOX_EGRESS_DNS_UPSTREAM": " , "}, {"OPENSANDBOX_EGRESS_MITMPROXY_PORT": "0"}])
def test_does_not_start_with_what_it_does_not_understand(net, fresh, env):
    n = fresh()
    n.start(wait=False, **env)
    assert n.sidecar.wait(30) == 1 and "cannot start" in n.log()
