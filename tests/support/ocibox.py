"""The embedded runtime for tests: a configuration of its own (directories, bridge, table, control group),
oci_tool to drive it, and a look at the host for what it should not have left behind."""

import json
import os
import random
import shutil
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("OSB_BIN", os.path.join(ROOT, "build", "bin"))
ENGINES = ["crun", "runc", "runsc"]
SLOW = float(os.environ.get("OSB_TEST_SLOW", "1"))


def installed(engine):
    return shutil.which(engine, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") is not None


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit {self.code}\n{self.out}\n{self.err}"


class Box:
    """One private instance of the runtime. Names are short: a bridge has at most nine letters."""

    def __init__(self, **options):
        tag = "%05x" % random.SystemRandom().randrange(1 << 20)
        self.name = "ot" + tag
        self.dir = tempfile.mkdtemp(prefix=f"{self.name}-")
        os.chmod(self.dir, 0o711)
        net = random.SystemRandom().randrange(1 << 14)
        self.subnet = f"10.{192 + (net >> 8)}.{net & 255}.0/24"
        self.gateway = f"10.{192 + (net >> 8)}.{net & 255}.1"
        self.root, self.run_dir = f"{self.dir}/root", f"{self.dir}/run"
        self.config = f"{self.dir}/config.toml"
        values = {
            "root": self.root, "run_dir": self.run_dir, "execd": f"{BIN}/execd", "bridge": self.name,
            "subnet": self.subnet, "ipv6": "off", "nft_table": self.name, "cgroup_parent": self.name,
            "allowed_engines": ENGINES, "netns_pool": 1, "start_timeout_seconds": 120,
        }
        # Side by side with other instances: ranges of ids that are not theirs.
        values["id_base"] = 1 << 30 | random.SystemRandom().randrange(1 << 12) << 18
        values["id_ranges"] = 4
        values.update(options)
        tables = {k: v for k, v in values.items() if isinstance(v, dict)}
        with open(self.config, "w") as f:
            f.write(f"[images]\nroot = {json.dumps(self.dir + '/images')}\n[oci]\n")
            for key, value in values.items():
                if key not in tables:
                    f.write(f"{key} = {json.dumps(value)}\n")
            for key, table in tables.items():
                f.write(f"[oci.{key}]\n")
                for k, v in table.items():
                    f.write(f"{json.dumps(k)} = {json.dumps(v)}\n")
        self.ids = []

    # ---- the tool ----

    def tool(self, *args, check=True, timeout=180, env=None):
        p = subprocess.run([f"{BIN}/oci_tool", self.config, *map(str, args)], capture_output=True, text=True,
                           errors="replace", timeout=timeout, stdin=subprocess.DEVNULL,
                           env=dict(os.environ, **(env or {})))
        if check and p.returncode != 0:
            raise AssertionError(f"oci_tool {' '.join(map(str, args))}: exit {p.returncode}\n{p.stdout}{p.stderr}")
        return Result(p.returncode, p.stdout, p.stderr)

    def create(self, id, *options, entrypoint=None, **kw):
        args = list(options) + (["--", *entrypoint] if entrypoint else [])
        r = self.tool("create", id, *args, **kw)
        if r.code == 0:
            self.ids.append(id)
        return r

    def sh(self, id, command, timeout=180):
        """A shell command as root inside, through execd: exit code and output."""
        r = self.tool("run", id, command, timeout=timeout)
        out, err, code = [], [], None
        for line in r.out.split("\n"):
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            if event["type"] in ("stdout", "stderr"):
                (out if event["type"] == "stdout" else err).append(event["text"])
            elif event["type"] == "execution_complete":
                code = 0
            elif event["type"] == "error":
                value = event["error"]["evalue"]
                code = int(value) if value.lstrip("-").isdigit() else -1
        if code is None:
            raise AssertionError(f"no end of '{command}': {r.out[-2000:]}{r.err}")
        return Result(code, "\n".join(out), "\n".join(err))

    def py(self, id, source, timeout=180):
        """A Python program as root inside; what it prints."""
        return self.sh(id, "python3 - <<'__EOF__'\n" + source + "\n__EOF__", timeout=timeout)

    def state(self, id):
        words = self.tool("inspect", id).out.split(" ", 4)
        return {"state": words[1], "exit": words[2], "code": int(words[3]), "detail": words[4].strip()}

    def record(self, id):
        with open(f"{self.root}/sandboxes/{id}/state.json") as f:
            return json.load(f)

    def list(self):
        return {line.split(" ")[0]: line.split(" ")[1] for line in self.tool("list").out.splitlines()}

    # ---- the host ----

    def cgroup_dirs(self, id=None):
        """Every control group of the instance, or of one sandbox, in any hierarchy."""
        found = []
        for line in open("/proc/self/mountinfo"):
            fields = line.split(" ")
            if fields[fields.index("-") + 1] in ("cgroup", "cgroup2"):
                top = os.path.join(fields[4], self.name, *([id] if id else []))
                for dir, dirs, _files in os.walk(top):
                    found.append(dir)
        return sorted(found)

    def pids(self):
        out = set()
        for d in self.cgroup_dirs():
            try:
                with open(d + "/cgroup.procs") as f:
                    out |= {int(x) for x in f.read().split()}
            except OSError:
                pass
        return out

    def leftovers(self, keep=()):
        """What of the instance is on the host, beside the sandboxes in `keep`; {} is the right answer."""
        left = {}
        dirs = [d for d in os.listdir(f"{self.root}/sandboxes")] if os.path.isdir(f"{self.root}/sandboxes") else []
        left["directories"] = [d for d in dirs if d not in keep]
        left["cgroups"] = [d for d in self.cgroup_dirs()
                           if d.rstrip("/").split(f"/{self.name}")[-1].lstrip("/").split("/")[0] not in ("", *keep)]
        with open("/proc/self/mountinfo") as f:
            left["mounts"] = [line for line in f if self.dir in line]
        if not keep:
            left["links"] = [n for n in os.listdir("/sys/class/net") if n.startswith(self.name + "-")]
            left["processes"] = sorted(self.pids())
            left["loops"] = [line for line in subprocess.run(["losetup", "-a"], capture_output=True, text=True)
                             .stdout.splitlines() if self.dir in line]
        for engine in ENGINES:
            try:
                left[engine] = [x for x in os.listdir(f"{self.run_dir}/{engine}")
                                if x not in keep and not x.startswith(".")]
            except OSError:
                pass
        return {k: v for k, v in left.items() if v}

    def clean_soon(self, keep=(), seconds=20):
        """Leftovers, once the kernel has had the time to finish (namespaces die in the background)."""
        deadline = time.monotonic() + seconds * SLOW
        while True:
            left = self.leftovers(keep)
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)

    def close(self):
        if os.path.exists(f"{BIN}/oci_tool"):
            self.tool("sweep", check=False)
        subprocess.run(["ip", "link", "del", self.name], capture_output=True)
        subprocess.run(["nft", "delete", "table", "inet", self.name], capture_output=True)
        for d in reversed(self.cgroup_dirs()):
            try:
                os.rmdir(d)
            except OSError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)
