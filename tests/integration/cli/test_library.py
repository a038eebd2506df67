"""libopensandbox as others see it: the examples run, and nothing but the API is exported."""

import os
import re
import subprocess

from conftest import BIN, ROOT


def run(name, *args, env):
    return subprocess.run([os.path.join(BIN, name), *args], env=env, capture_output=True, text=True, timeout=120,
                          check=False)


def test_first(osb):
    r = run("example_first", "host", env=osb.env)
    assert r.returncode == 0, r.stderr
    assert r.stdout == ("the sandbox says: hello\nthe sandbox says: /tmp\nexit code 3\n"
                        "read 8 bytes: remember\n")


def test_first_without_a_server(local):
    r = run("example_first", env={**local.env, "OPEN_SANDBOX_DOMAIN": "127.0.0.1:1"})
    assert r.returncode == 1 and r.stderr.startswith("create: ") and "(network)" in r.stderr


def test_terminal(osb, box):
    r = run("example_terminal", box, env=osb.env)
    assert r.returncode == 0, r.stderr
    assert "Your name? " in r.stdout and "Hello, Ada" in r.stdout and r.stdout.endswith("[exit 2]\n")


def test_policy_and_vault(osb):
    r = run("example_policy", "host", env=osb.env)
    assert r.returncode == 0, r.stderr
    assert r.stdout == ("created: api.example is there\npatched: pkg.example is there\ndeleted: pkg.example is not there\n"
                        "deleted: bad.example is there\na wrong rule: invalid\nthe vault keeps its secret\n"
                        "an old revision: conflict\nrevision 2: yes\ndeleted: not_found\n")


def test_pools(osb):
    r = run("example_pool", "library", "host", env=osb.env)
    assert r.returncode == 0, r.stderr
    assert r.stdout == ("made library\na second of that name: conflict\n1 wait\ninside: ours mine\n1 taken\n"
                        "at least 2, at most 4\n2 wait\nlisted\ndeleted: not_found\n")


def test_cxx(local):
    r = run("example_usable", env=local.env)
    assert r.returncode == 0 and r.stdout.split()[1:] == ["invalid", "1"]


def test_exports_are_the_header():
    libs = subprocess.run(["ldd", os.path.join(BIN, "example_first")], capture_output=True, text=True, check=True).stdout
    path = re.search(r"libopensandbox\.so\.0 => (\S+)", libs).group(1)
    nm = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[2] for line in nm.splitlines() if line.split()[1] == "T"}
    with open(os.path.join(ROOT, "src", "client", "opensandbox.h")) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    declared = set(re.findall(r"OSB_API\s[^;]*?\b(osb_\w+)\s*\(", text))
    assert exported == declared


def test_every_function_is_described():
    """A comment directly above a function, or behind it on its line."""
    with open(os.path.join(ROOT, "src", "client", "opensandbox.h")) as f:
        text = f.read()
    silent = []
    for m in re.finditer(r"^OSB_API[^;]*?\b(osb_\w+)\([^;]*;[^\n]*", text, re.M):
        above = text[:m.start()].rstrip("\n").split("\n")[-1]
        described = above.endswith("*/") and above.startswith(("/* ", " *")) and not above.startswith("/* ----")
        if not described and "/*" not in m.group(0):
            silent.append(m.group(1))
    assert silent == []
