"""osb sandbox: the whole life of one, and what is printed about it."""

import re
import signal
import subprocess


def test_create_get_list_kill(osb):
    made = osb.json("sandbox", "create", "-i", "host", "-t", "1h30m", "-m", "team=a-b", "-e", "X=1")
    sid = made["id"]
    assert made == {"id": sid, "image": "host", "status": "created", "timeout": "1:30:00"}
    info = osb.json("sandbox", "get", sid)
    assert list(info) == ["id", "status", "entrypoint", "expires_at", "created_at", "image", "snapshot_id", "platform",
                          "metadata"]
    assert info["status"]["state"] == "Running" and info["image"] == {"image": "host", "auth": None}
    assert info["metadata"] == {"team": "a-b"}
    listed = osb.json("sandbox", "list", "-m", "team=a-b", "-s", "running")
    assert [i["id"] for i in listed["items"]] == [sid]
    assert list(listed["pagination"]) == ["page", "page_size", "total_items", "total_pages", "has_next_page"]
    assert osb.ok("command", "run", sid, "--", "printenv", "X") == "1\n"
    table = osb.ok("sandbox", "list")
    assert sid in table and "● Running" in table and "│ ID " in table and table.lstrip().startswith("Sandboxes")
    assert osb.json("sandbox", "kill", sid) == [{"sandbox_id": sid, "status": "terminated"}]
    gone = osb("sandbox", "get", sid)
    assert gone.returncode == 1 and "Get sandbox %s failed: " % sid in gone.stderr and gone.stdout == ""


def test_panel_plain_and_not(osb):
    r = osb.ok("sandbox", "create", "-i", "host", "-t", "10m")
    m = re.match(r"\n  ✓ Sandbox Created\n  ─{17}\n  id: (\S+)\n  image: host\n  status: created\n"
                 r"  timeout: 0:10:00\n\n$", r)
    assert m, r
    sid = m.group(1)
    plain = osb.ok("--no-color", "sandbox", "renew", sid, "-t", "1h")
    assert re.fullmatch(r"--- Sandbox Renewed ---\n  sandbox_id: %s\n  expires_at: "
                        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00:00\n" % sid, plain)
    table = osb.ok("--no-color", "sandbox", "kill", sid)
    assert "╭" in table and "○ terminated" in table


def test_without_end(osb):
    made = osb.json("sandbox", "create", "-i", "host", "-t", "None")
    assert made["timeout"] == "manual-cleanup"
    assert osb.json("sandbox", "get", made["id"])["expires_at"] is None
    osb.ok("sandbox", "kill", made["id"])


def test_empty_list(osb):
    assert osb.ok("sandbox", "list", "-m", "no=such") == "  ℹ️  No sandboxes found.\n"
    assert osb.ok("--no-color", "sandbox", "list", "-m", "no=such") == "INFO: No sandboxes found.\n"
    assert osb.json("sandbox", "list", "-m", "no=such")["items"] == []


def test_yaml_is_sorted(osb, box):
    keys = [line.split(":")[0] for line in osb.ok("sandbox", "get", box, "-o", "yaml").splitlines()
            if line and line[0] not in " -"]
    assert keys == sorted(keys) and "created_at" in keys


def test_pause_resume(osb):
    sid = osb.json("sandbox", "create", "-i", "host")["id"]
    assert osb.ok("sandbox", "pause", sid) == "  ✅ Sandbox paused: %s\n" % sid
    assert osb.json("sandbox", "get", sid)["status"]["state"] in ("Pausing", "Paused")
    assert osb.json("sandbox", "resume", sid) == {"status": "ok", "message": "Sandbox resumed: " + sid}
    assert osb.ok("command", "run", sid, "echo", "back") == "back\n"
    osb.ok("sandbox", "kill", sid)


def test_endpoint_health_metrics(osb, box):
    assert set(osb.json("sandbox", "endpoint", box, "-p", "8080")) == {"endpoint", "headers"}
    assert osb.json("sandbox", "health", box) == {"sandbox_id": box, "healthy": True}
    m = osb.json("sandbox", "metrics", box)
    assert list(m) == ["cpu_count", "cpu_used_percentage", "memory_total_in_mib", "memory_used_in_mib", "timestamp"]
    assert m["cpu_count"] > 0
    assert re.match(r"\[.*Z\] cpu=\d+\.\d\d% cores=\S+ mem=\S+/\S+MiB\n$", osb.ok("sandbox", "metrics", box, "-o", "raw"))


def test_health_fails(osb):
    r = osb("sandbox", "health", "00000000-0000-4000-8000-000000000000")
    assert r.returncode == 1


def test_metrics_watch_until_interrupted(osb, box):
    p = subprocess.Popen([osb.exe, "sandbox", "metrics", box, "--watch"], env=osb.env, stdout=subprocess.PIPE,
                         text=True)
    first = p.stdout.readline()
    assert re.match(r"\[\d{4}-.*Z\] cpu=", first)
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 0
    p.stdout.close()


def test_metadata(osb):
    sid = osb.json("sandbox", "create", "-i", "host", "-m", "a=1", "-m", "gone=soon")["id"]
    try:
        assert osb.json("sandbox", "metadata", sid) == {"a": "1", "gone": "soon"}
        want = {"a": "2", "b": "x-y"}
        assert osb.json("sandbox", "metadata", sid, "a=2", "b=x-y", "--remove", "gone") == want
        assert osb.json("sandbox", "get", sid)["metadata"] == want and "x-y" in osb.ok("sandbox", "metadata", sid)
        for bad in ("novalue", "=v"):
            r = osb("sandbox", "metadata", sid, "c=3", bad)
            assert r.returncode == 2 and "is not KEY=VALUE" in r.stderr
        assert osb.json("sandbox", "metadata", sid) == want
    finally:
        osb.ok("sandbox", "kill", sid)
    r = osb("sandbox", "metadata", "00000000-0000-4000-8000-000000000000", "a=1")
    assert r.returncode == 1 and "failed: " in r.stderr and r.stdout == ""


def test_bad_state_and_missing_image(osb):
    r = osb("sandbox", "list", "-s", "sleeping")
    assert r.returncode == 1 and r.stderr.startswith("Error: 'sleeping' is not a state")
    r = osb("sandbox", "create")
    assert r.returncode == 1 and r.stderr.startswith("Error: No image")
    r = osb("sandbox", "create", "-i", "127.0.0.1:9/none")
    assert r.returncode == 1 and "127.0.0.1" in r.stderr and "osb image ls" in r.stderr


def test_default_image_from_file_also_as_number(osb):
    osb.ok("config", "init")
    osb.ok("config", "set", "defaults.image", "host")
    osb.ok("config", "set", "defaults.timeout", "600")
    made = osb.json("sandbox", "create")
    assert made["timeout"] == "0:10:00" and made["image"] == "host"
    osb.ok("sandbox", "kill", made["id"])


def test_wrong_key_and_dead_server(osb):
    r = osb("--api-key", "wrong", "sandbox", "list")
    assert r.returncode == 1 and "List sandboxes failed: " in r.stderr and "key" in r.stderr
    r = osb("--domain", "127.0.0.1:1", "sandbox", "list", "-o", "json")
    assert r.returncode == 1 and r.stdout == "" and "osb doctor" in r.stderr
    r = osb("--no-color", "--domain", "127.0.0.1:1", "sandbox", "list")
    assert r.stderr.startswith("ERROR [Sandbox Error]: List sandboxes failed: ") and r.stderr.count("\n") == 1


def test_verbose(osb):
    r = osb("-v", "sandbox", "get", "00000000-0000-4000-8000-000000000000")
    assert r.returncode == 1 and "osb: server http://127.0.0.1:" in r.stderr and "with a key" in r.stderr
    assert "osb: not_found, HTTP status 404, code '" in r.stderr and osb.env["OPEN_SANDBOX_API_KEY"] not in r.stderr
