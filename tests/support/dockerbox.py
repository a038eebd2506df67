"""A real Docker engine for tests: dockerd with its own directories, socket, bridge and network, that touches
neither the machine's engine nor its packet rules, and images put together from what is installed."""

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.parse

SLOW = float(os.environ.get("OSB_TEST_SLOW", "1"))
APPLETS = ("sh ash cat ls echo sleep tail head nc httpd id true false env wget mkdir rm rmdir dd tr printf cp mv ln "
           "chmod chown touch test expr seq kill ps grep sed awk cut wc sort uniq date stat df mount umount sync "
           "hostname uname whoami which find xargs tar yes timeout").split()


DEBIAN = "bash coreutils dash findutils grep hostname mount procps python3 sed util-linux".split()
NOT_NEEDED = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/i18n", "/usr/share/perl", "/usr/lib/python3/")


def files_of(packages):
    """Where the files of these packages and of what they depend on really are."""
    rows = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Pre-Depends}, ${Depends}\n"], capture_output=True,
                          text=True, check=True).stdout
    needs = {name: [w.split("|")[0].split("(")[0].split(":")[0].strip() for w in words.split(",")]
             for name, words in (row.split("\t") for row in rows.splitlines())}
    wanted, todo = set(), list(packages)
    while todo:
        name = todo.pop()
        if name in needs and name not in wanted:
            wanted.add(name)
            todo += needs[name]
    listed = subprocess.run(["dpkg-query", "-L", *sorted(wanted)], capture_output=True, text=True, check=True).stdout
    real = set()
    for path in listed.splitlines():
        if path.startswith("/") and not path.startswith(NOT_NEEDED) and os.path.lexists(path):
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            if not os.path.isdir(path) or (os.path.islink(path) and path.startswith("/usr/")):
                real.add(path)
    return sorted(real)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=120):
        super().__init__("docker", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def find(program):
    return shutil.which(program, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


class Engine:
    """start(), stop() and kill() may be called again and again on the same data."""

    def __init__(self, runtimes=True, more=()):
        tag = "%05x" % random.SystemRandom().randrange(1 << 20)
        self.name = "od" + tag
        self.dir = tempfile.mkdtemp(prefix=f"osbt-{self.name}-", dir=os.environ.get("OSB_TEST_TMP", "/var/tmp"))
        self.socket = f"/run/{self.name}.sock"
        self.url = f"unix://{self.socket}"
        net = random.SystemRandom().randrange(1 << 12)
        self.subnet = f"10.{176 + (net >> 8)}.{net & 255}.0/24"
        self.gateway = f"10.{176 + (net >> 8)}.{net & 255}.1"
        self.log_path = f"{self.dir}/dockerd.log"
        self.process = None
        self.command = [
            find("dockerd"), "--data-root", f"{self.dir}/data", "--exec-root", f"/run/{self.name}",
            "--pidfile", f"{self.dir}/pid", "-H", self.url, "--bridge", self.name, "--fixed-cidr", self.subnet,
            "--containerd-namespace", self.name, "--containerd-plugins-namespace", f"{self.name}-plugins",
            "--dns", self.gateway, "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false",
            "--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{self.name}",
            "--config-file", f"{self.dir}/daemon.json", *more,
        ]
        config = {}
        if runtimes and find("runsc"):
            config["runtimes"] = {"runsc": {"path": find("runsc"), "runtimeArgs": ["--network=host", "--ignore-cgroups"]}}
        with open(f"{self.dir}/daemon.json", "w") as f:
            json.dump(config, f)

    # ---- the process ----
    def start(self):
        ip = ["ip", "link"]
        subprocess.run([*ip, "add", "name", self.name, "type", "bridge"], capture_output=True)
        subprocess.run(["ip", "addr", "add", self.gateway + "/24", "dev", self.name], capture_output=True)
        subprocess.run([*ip, "set", self.name, "up"], check=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("DOCKER_")}
        env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                            start_new_session=True)
        deadline = time.monotonic() + 60 * SLOW
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/_ping")[0] == 200:
                    return self
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"dockerd did not start:\n{self.log_tail()}")
            time.sleep(0.05)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def kill(self):
        """As a crash. The containers' shims go on; its containerd dies with it, after a moment in which the next
        dockerd would take it for alive."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        deadline = time.monotonic() + 20 * SLOW
        while pids := list(self._pids_of(f"/run/{self.name}/containerd/containerd.toml")):
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        # A zombie that nobody reaps counts as alive, too.
        with contextlib.suppress(OSError):
            os.unlink(f"/run/{self.name}/containerd/containerd.pid")

    def log_tail(self, lines=30):
        with open(self.log_path, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    # ---- the API ----
    def call(self, method, path, body=None, raw=None, timeout=120):
        c = UnixConnection(self.socket, timeout)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        c.request(method, path, raw if raw is not None else json.dumps(body) if body is not None else None, headers)
        r = c.getresponse()
        text = r.read()
        c.close()
        with contextlib.suppress(ValueError):
            return r.status, json.loads(text)
        return r.status, text

    def ok(self, method, path, body=None, **more):
        status, answer = self.call(method, path, body, **more)
        assert status < 300 or status == 304, f"{method} {path}: {status} {answer}"
        return answer

    def containers(self, label="opensandbox.io/id"):
        filters = urllib.parse.quote(json.dumps({"label": [label]}))
        return self.ok("GET", f"/containers/json?all=1&filters={filters}")

    def inspect(self, id):
        return self.ok("GET", f"/containers/sandbox-{id}/json")

    def volumes(self):
        return {v["Name"] for v in self.ok("GET", "/volumes")["Volumes"] or []}

    # ---- images ----
    def load(self, name, root, changes=()):
        """An image out of a directory."""
        tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout
        repo, tag = name.rsplit(":", 1)
        query = urllib.parse.urlencode([("fromSrc", "-"), ("repo", repo), ("tag", tag),
                                        *[("changes", c) for c in changes]])
        self.ok("POST", f"/images/create?{query}", raw=tar)

    def load_busybox(self, name="osbt-busybox:1", changes=()):
        root = f"{self.dir}/busybox"
        if not os.path.isdir(root):
            for d in ("bin", "tmp", "etc", "root", "var"):
                os.makedirs(f"{root}/{d}")
            os.chmod(f"{root}/tmp", 0o1777)
            shutil.copy(find("busybox"), f"{root}/bin/busybox")
            for applet in APPLETS:
                os.symlink("busybox", f"{root}/bin/{applet}")
            with open(f"{root}/etc/passwd", "w") as f:
                f.write("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n")
            with open(f"{root}/etc/group", "w") as f:
                f.write("root:x:0:\nnogroup:x:65534:\n")
        self.load(name, root, changes)

    def load_debian(self, name, packages=DEBIAN):
        """Files of installed packages and of what they depend on, as an image."""
        archive = f"{self.dir}/debian.tar"
        with tarfile.open(archive, "w") as tar:
            for path in ("tmp", "root", "var/tmp", "srv", "mnt", "run", "proc", "sys", "dev", "etc", "home"):
                entry = tarfile.TarInfo(path)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path.endswith("tmp") else 0o755
                tar.addfile(entry)
            for link, to in (("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"),
                             ("var/run", "/run")):
                entry = tarfile.TarInfo(link)
                entry.type, entry.linkname = tarfile.SYMTYPE, to
                tar.addfile(entry)
            for path in files_of(packages):
                tar.add(path, path.lstrip("/"), recursive=False)
            for path in ("/etc/passwd", "/etc/group", "/etc/ld.so.cache"):
                tar.add(path, path.lstrip("/"))
        repo, tag = name.rsplit(":", 1)
        with open(archive, "rb") as f:
            self.ok("POST", f"/images/create?fromSrc=-&repo={repo}&tag={tag}", raw=f)
        os.unlink(archive)

    # ---- the end ----
    def close(self):
        with contextlib.suppress(Exception):
            if self.process is None or self.process.poll() is not None:
                self.start()
            for c in self.ok("GET", "/containers/json?all=1"):
                self.call("DELETE", f"/containers/{c['Id']}?force=1&v=1")
            for n in self.ok("GET", "/networks"):
                if n["Name"] not in ("bridge", "host", "none"):
                    self.call("DELETE", f"/networks/{n['Id']}")
        with contextlib.suppress(Exception):
            self.stop()
        self.kill()
        # A containerd that outlived a killed dockerd.
        for pid in self._pids_of(f"/run/{self.name}/"):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        subprocess.run(["ip", "link", "del", self.name], capture_output=True)
        with open("/proc/self/mountinfo") as f:
            points = [line.split(" ")[4] for line in f]
        for point in sorted(points, reverse=True):
            if point.startswith((self.dir, f"/run/{self.name}")):
                subprocess.run(["umount", "-l", point], capture_output=True)
        for top in os.listdir("/sys/fs/cgroup"):
            for path, _, _ in os.walk(f"/sys/fs/cgroup/{top}/{self.name}", topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        shutil.rmtree(f"/run/{self.name}", ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(self.socket)

    @staticmethod
    def _pids_of(word):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as f:
                    if word.encode() in f.read():
                        yield int(entry)
