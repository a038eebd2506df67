"""A real opensandbox-server for tests: its own port, directories, bridge, table and control groups, so
that several can run on one machine, and a look at what they leave behind."""

import contextlib
import glob
import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

import requests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("OSB_BIN") or os.path.join(ROOT, "build", "bin")
# Inside the sandboxes always the static execd: one with a sanitizer needs its libraries and memory.
EXECD_BIN = os.path.join(BIN, "execd")
if os.environ.get("OSB_FLAVOUR") in ("asan", "tsan") and os.path.exists(os.path.join(ROOT, "build", "bin", "execd")):
    EXECD_BIN = os.path.join(ROOT, "build", "bin", "execd")
START_TIMEOUT = 60
EXECD = 44772

HOST_REQUEST = {
    "image": {"uri": "host"},
    "entrypoint": ["sleep", "infinity"],
    "resourceLimits": {"cpu": "1", "memory": "128Mi"},
    "timeout": 600,
}


def request_body(**changes):
    """The request for a small sandbox on `host`; a value of None takes a member away."""
    body = {**HOST_REQUEST, **changes}
    return {k: v for k, v in body.items() if v is not None}


def wait_for(what, predicate, timeout=60, interval=0.02):
    """Polls; returns the first true value. For things that send no event."""
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {timeout} s")
        time.sleep(interval)


class Server:
    """One server. start() and stop() may be called again and again on the same data."""

    def __init__(self, config="", key="test-key-0123456789", binary_dir=None):
        tag = secrets.token_hex(3)
        self.bin = binary_dir or BIN
        self.tag = tag
        self.bridge = f"ot{tag}"
        self.table = f"osbt_{tag}"
        self.cgroup = f"osbt-{tag}"
        self.run_dir = f"/run/osbt-{tag}"
        self.dir = tempfile.mkdtemp(prefix=f"osbt-{tag}-", dir=os.environ.get("OSB_TEST_TMP", "/var/tmp"))
        os.chmod(self.dir, 0o711)
        self.data = os.path.join(self.dir, "data")
        self.config_path = os.path.join(self.dir, "server.toml")
        self.log_path = os.path.join(self.dir, "server.log")
        self.subnet = f"10.{secrets.randbelow(40) + 200}.{secrets.randbelow(64) * 4}.0/22"
        self.extra, self.key = config, key
        self.env = {}
        self.process = None
        self.url = None
        self.session = requests.Session()
        self.session.trust_env = False
        self.write_config()

    # ---- configuration ----
    def write_config(self, extra=None):
        """`extra` is TOML; keys of a section given there win over the ones of the tests."""
        if extra is not None:
            self.extra = extra
        sections = {
            "server": {"port": 0, "data_dir": self.data},
            "log": {"level": "debug"},
            "oci": {"run_dir": self.run_dir, "bridge": self.bridge, "subnet": self.subnet,
                    "nft_table": self.table, "cgroup_parent": self.cgroup, "netns_pool": 1,
                    "execd": EXECD_BIN},
        }
        if self.key:
            sections["server"]["api_key"] = self.key
        lines, current, seen = [], None, {}
        for line in self.extra.splitlines():
            if line.strip().startswith("["):
                current = line.strip().strip("[]")
            elif "=" in line and current:
                seen.setdefault(current, set()).add(line.split("=")[0].strip())
        for name, values in sections.items():
            lines.append(f"[{name}]")
            lines += [f"{k} = {json.dumps(v)}" for k, v in values.items() if k not in seen.get(name, ())]
            lines += self._extra_of(name)
            lines.append("")
        lines += self._extra_rest(sections)
        with open(self.config_path, "w") as f:
            f.write("\n".join(lines) + "\n")

    def _blocks(self):
        name, block = None, []
        for line in self.extra.splitlines():
            if line.strip().startswith("["):
                if name is not None:
                    yield name, block
                name, block = line.strip().strip("[]"), []
            elif line.strip():
                block.append(line)
        if name is not None:
            yield name, block

    def _extra_of(self, name):
        return [line for n, block in self._blocks() if n == name for line in block]

    def _extra_rest(self, known):
        out = []
        for name, block in self._blocks():
            if name not in known:
                out += [f"[{name}]", *block, ""]
        return out

    # ---- the process ----
    def spawn(self, env=None):
        """Starts it without waiting for anything."""
        full = {k: v for k, v in os.environ.items() if not k.startswith("OPENSANDBOX_")}
        full.update(self.env)
        full.update(env or {})
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [os.path.join(self.bin, "opensandbox-server"), "--config", self.config_path], env=full,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, cwd=self.dir)
        self.log.close()
        return self.process

    def start(self, env=None):
        self.spawn(env)
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on "):
            code = self.process.wait()
            raise AssertionError(f"the server did not start (exit {code}):\n{self.log_tail()}")
        self.url = line.split()[2]
        return self

    def fails_to_start(self, env=None, timeout=START_TIMEOUT):
        """Its exit code and what it said."""
        before = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        self.spawn(env)
        try:
            out, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server started although it should not")
        with open(self.log_path) as f:
            f.seek(before)
            return self.process.returncode, f.read() + out.decode()

    def stop(self, timeout=60):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout)
        return self._ended()

    def kill(self):
        """As a crash: SIGKILL."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        return self._ended()

    def wait_crash(self, timeout=60):
        code = self.process.wait(timeout)
        self._ended()
        return code

    def _ended(self):
        code = self.process.returncode if self.process else None
        if self.process:
            self.process.stdout.close()
        self.session.close()
        self.session = requests.Session()
        self.session.trust_env = False
        return code

    def restart(self, env=None):
        self.kill()
        return self.start(env)

    def log_tail(self, lines=30):
        with open(self.log_path, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    @property
    def pid(self):
        return self.process.pid

    # ---- the API ----
    def call(self, method, path, body=None, headers=None, key=True, **more):
        h = {"OPEN-SANDBOX-API-KEY": self.key} if key and self.key else {}
        h.update(headers or {})
        if body is not None and "data" not in more:
            more["json"] = body
        more.setdefault("timeout", 60)
        return self.session.request(method, self.url + path, headers=h, **more)

    def ok(self, method, path, body=None, status=None, **more):
        r = self.call(method, path, body, **more)
        if status is None:
            assert r.status_code < 300, f"{method} {path}: {r.status_code} {r.text}"
        else:
            assert r.status_code == status, f"{method} {path}: {r.status_code} {r.text}"
        return r.json() if r.content else None

    def create(self, headers=None, **changes):
        """A Running sandbox."""
        sandbox = self.ok("POST", "/v1/sandboxes", request_body(**changes), status=202, headers=headers)
        if sandbox["status"]["state"] == "Pending":
            return self.wait_state(sandbox["id"], "Running")
        assert sandbox["status"]["state"] == "Running", sandbox
        return sandbox

    def get(self, id):
        return self.ok("GET", f"/v1/sandboxes/{id}", status=200)

    def state(self, id):
        r = self.call("GET", f"/v1/sandboxes/{id}")
        return r.json()["status"]["state"] if r.status_code == 200 else None

    def wait_state(self, id, state, timeout=60):
        wait_for(f"{id} becoming {state}", lambda: self.state(id) == state, timeout)
        return self.get(id) if state else None

    def wait_gone(self, id, timeout=60):
        wait_for(f"{id} going away", lambda: self.state(id) is None, timeout)

    def list(self, query=""):
        return self.ok("GET", f"/v1/sandboxes?pageSize=200{query}", status=200)["items"]

    def delete(self, id):
        self.ok("DELETE", f"/v1/sandboxes/{id}", status=204)

    def delete_pools(self):
        r = self.call("GET", "/v1/pools")
        for pool in r.json()["items"] if r.status_code == 200 else []:
            self.call("DELETE", f"/v1/pools/{pool['name']}")

    def ping(self, id):
        r = self.call("GET", f"/sandboxes/{id}/proxy/{EXECD}/ping", key=False)
        return r.status_code == 200

    def run(self, id, command, timeout=60):
        """A command through execd and the server's proxy: (stdout, the last event)."""
        out, last = [], None
        r = self.call("POST", f"/sandboxes/{id}/proxy/{EXECD}/command", {"command": command}, key=False,
                      stream=True, timeout=timeout)
        assert r.status_code == 200, r.text
        for line in r.iter_lines():
            if line:
                event = json.loads(line)
                last = event
                if event["type"] == "stdout":
                    out.append(event["text"])
        return "\n".join(out), last

    def raw(self):
        """A plain connection, for requests that a library would tidy up."""
        host, port = self.url.split("//")[1].split(":")
        return http.client.HTTPConnection(host, int(port), timeout=60)

    # ---- what is left ----
    def cgroups(self):
        """Control groups of sandboxes below ours."""
        found = set()
        for top in ["/sys/fs/cgroup"] + glob.glob("/sys/fs/cgroup/*/"):
            base = os.path.join(top, self.cgroup)
            if os.path.isdir(base):
                found |= {e.name for e in os.scandir(base) if e.is_dir() and "-" in e.name and len(e.name) >= 36}
        return found

    def processes(self):
        """Processes inside our control groups."""
        pids = set()
        for top in ["/sys/fs/cgroup"] + glob.glob("/sys/fs/cgroup/*/"):
            for procs in glob.glob(os.path.join(top, self.cgroup, "**", "cgroup.procs"), recursive=True):
                with contextlib.suppress(OSError), open(procs) as f:
                    pids |= set(f.read().split())
        return pids

    def mounts(self):
        with open("/proc/self/mountinfo") as f:
            return [line for line in f if self.dir in line or self.run_dir in line]

    def links(self):
        out = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
        return [w.split()[0] for w in out.splitlines() if w.startswith(self.bridge + "-")]

    def directories(self):
        path = os.path.join(self.data, "oci", "sandboxes")
        return os.listdir(path) if os.path.isdir(path) else []

    def snapshot_layers(self):
        """What snapshots have on the disk."""
        return [x for x in os.listdir(os.path.join(self.data, "images", "layers")) if x.startswith("snap-")]

    def named_volumes(self):
        return sorted(os.listdir(os.path.join(self.data, "oci", "volumes")))

    def leftovers(self, ids=()):
        """Everything that belongs to sandboxes other than `ids`; empty when clean. Links are counted by
        the caller: the server keeps some ready."""
        left = []
        left += [f"cgroup {c}" for c in self.cgroups() if c not in ids]
        left += [f"mount {m.strip()}" for m in self.mounts()]
        left += [f"directory {d}" for d in self.directories() if d not in ids]
        if not ids:
            left += [f"process {p}" for p in self.processes()]
        return left

    def assert_clean(self, ids=(), timeout=30):
        try:
            wait_for("cleaning up", lambda: not self.leftovers(ids), timeout)
        except AssertionError:
            raise AssertionError(f"left behind: {self.leftovers(ids)}\n{self.log_tail()}")

    def sweep(self, keep=()):
        """Deletes pools and sandboxes but those to keep; nothing of them is left."""
        self.delete_pools()
        for sandbox in self.list():
            if sandbox["id"] not in keep:
                self.call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
        self.assert_clean(keep)

    def close(self):
        """Takes everything down, also what a failed test left."""
        with contextlib.suppress(Exception):
            if self.process is None or self.process.poll() is not None:
                self.start()
            self.delete_pools()
            for sandbox in self.list():
                self.call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
        with contextlib.suppress(Exception):
            self.stop()
        self.kill()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)
        subprocess.run(["nft", "delete", "table", "inet", self.table], capture_output=True)
        for top in ["/sys/fs/cgroup"] + glob.glob("/sys/fs/cgroup/*/"):
            for path, _, _ in os.walk(os.path.join(top, self.cgroup), topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        shutil.rmtree(self.run_dir, ignore_errors=True)
        report = self.sanitizer_report()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not report, report

    def sanitizer_report(self):
        """What a sanitizer wrote into the log, from its first line on."""
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, errors="replace") as f:
            text = f.read()
        for word in ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "runtime error:"):
            if word in text:
                return text[text.index(word):][:6000]
        return ""
