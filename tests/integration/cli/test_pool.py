"""osb pool, and sandboxes out of one."""

import json
import time

import pytest

POOL = """
name: warm
template:
  image: host
  entrypoint: [sh, -c, "echo $A; exec sleep 1000"]
  env: {A: template}
  resourceLimits: {cpu: "1", memory: 128Mi}
capacitySpec: {bufferMin: 1, bufferMax: 1, poolMin: 0, poolMax: 5}
"""


@pytest.fixture
def pool(osb, tmp_path):
    made = osb.json("pool", "create", "--file", "-", stdin=POOL)
    yield made
    osb("pool", "delete", "warm")


def wait_available(osb, n):
    deadline = time.monotonic() + 60
    while osb.json("pool", "get", "warm")["status"]["available"] != n:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_life_of_a_pool(osb, tmp_path, pool):
    assert pool["name"] == "warm" and (pool.get("capacity_spec") or pool["capacitySpec"])
    again = osb("pool", "create", "--file", "-", stdin=POOL)
    assert again.returncode == 1 and "there is a pool 'warm' already" in again.stderr
    wait_available(osb, 1)
    assert [p["name"] for p in osb.json("pool", "list")["items"]] == ["warm"]
    assert "warm" in osb.ok("pool", "list")
    path = tmp_path / "new.json"
    path.write_text(json.dumps({"capacitySpec": {"bufferMin": 2, "bufferMax": 2, "poolMin": 0, "poolMax": 5}}))
    osb.ok("pool", "update", "warm", "--file", str(path))
    wait_available(osb, 2)
    assert "Deleted pool: warm" in osb.ok("pool", "delete", "warm")
    gone = osb("pool", "get", "warm")
    assert gone.returncode == 1 and "there is no pool 'warm'" in gone.stderr and gone.stdout == ""
    assert osb("pool", "delete", "warm").returncode == 1


def test_a_sandbox_out_of_it(osb, pool):
    wait_available(osb, 1)
    id = osb.json("sandbox", "create", "--extension", "poolRef=warm", "--env", "B=late", "-m", "from=pool")["id"]
    try:
        assert osb.ok("command", "run", id, "-o", "raw", "--", "sh", "-c", "echo $A-$B") == "template-late\n"
        shown = osb.json("sandbox", "get", id)
        assert "host" in json.dumps(shown) and "from" in json.dumps(shown)
        assert osb.json("pool", "get", "warm")["status"]["allocated"] == 1
    finally:
        osb.ok("sandbox", "kill", id)


def test_what_the_server_refuses_is_said(osb):
    r = osb("sandbox", "create", "--extension", "poolRef=none")
    assert r.returncode == 1 and "there is no pool 'none'" in r.stderr
    r = osb("pool", "create", "--file", "-", stdin="name: x\ntemplate: {timeout: 60}\ncapacitySpec: {bufferMin: 0, bufferMax: 0, poolMin: 0, poolMax: 0}\n")
    assert r.returncode == 1 and "timeout" in r.stderr
    r = osb("pool", "create", "--file", "-", stdin="name: x\n")
    assert r.returncode == 1 and r.stdout == ""
