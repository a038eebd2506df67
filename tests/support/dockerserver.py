"""A server whose sandboxes run on a Docker engine of the tests; the rest is osbserver's."""

import contextlib
import json
from urllib.parse import quote

import osbserver

IMAGE = "host"  # of the engine: what the suites that both runtimes pass ask for


class DockerServer(osbserver.Server):
    def __init__(self, engine, config="", **more):
        self.engine = engine
        super().__init__(config, **more)

    def write_config(self, extra=None):
        if extra is not None:
            self.extra = extra
        own = f'[runtime]\ntype = "docker"\n[docker]\nhost = "{self.engine.url}"\nexecd = "{osbserver.EXECD_BIN}"\n'
        given, self.extra = self.extra, self._merge(own, self.extra)
        super().write_config()
        self.extra = given

    @staticmethod
    def _merge(own, given):
        """Keys of `given` win; a section that both have is written once."""
        sections = {}
        for text in (own, given):
            name = None
            for line in text.splitlines():
                if line.strip().startswith("["):
                    name = line.strip()
                elif line.strip():
                    sections.setdefault(name, {})[line.split("=")[0].strip()] = line
        return "".join(f"{name}\n" + "\n".join(lines.values()) + "\n" for name, lines in sections.items())

    def label(self):
        """Which this server puts on what it makes."""
        with open(f"{self.data}/docker/server-id") as f:
            return "opensandbox.io/server=" + f.read().strip()

    def mine(self):
        with contextlib.suppress(OSError):
            return self.engine.containers(self.label())
        return []

    def snapshot_layers(self):
        """Images that are snapshots of this server, also those that have no name any more."""
        label = self.label().replace("/server=", "/snapshot-by=")
        return [i["Id"] for i in self.engine.ok("GET", "/images/json?filters=" + quote(json.dumps({"label": [label]})))]

    def named_volumes(self):
        found = self.engine.ok("GET", "/volumes?filters=" + quote(json.dumps({"label": [self.label()]})))
        return sorted(v["Name"] for v in found["Volumes"] or [])

    def leftovers(self, ids=()):
        left = []
        for c in self.mine():
            owner = c["Labels"].get("opensandbox.io/id") or c["Labels"].get("opensandbox.io/egress-sidecar-for")
            if owner not in ids:
                left.append(f"container {c['Names']}")
        with open("/proc/self/mountinfo") as f:
            left += [f"mount {line.strip()}" for line in f if f"{self.data}/docker/mounts" in line]
        if not ids:
            left += [f"volume {v}" for v in self.engine.volumes() if v.startswith("opensandbox-")]
        return left

    def close(self):
        with contextlib.suppress(Exception):
            self.stop()
        self.kill()
        with contextlib.suppress(Exception):
            for c in self.mine():
                self.engine.call("DELETE", f"/containers/{c['Id']}?force=1&v=1")
        super_close = osbserver.Server.close
        self.start = lambda *a, **k: (_ for _ in ()).throw(RuntimeError("closing"))
        super_close(self)
