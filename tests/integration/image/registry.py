"""A real registry (Debian's docker-registry) on loopback, and images made from nothing to put into it."""

import gzip
import hashlib
import http.client
import io
import json
import os
import socket
import subprocess
import tarfile
import time


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Registry:
    """One docker-registry process; optional htpasswd file and TLS certificate."""

    def __init__(self, directory, htpasswd=None, cert=None, key=None):
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        config = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": os.path.join(directory, "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.host, "secret": "x"},
        }
        if htpasswd:
            config["auth"] = {"htpasswd": {"realm": "test", "path": htpasswd}}
        if cert:
            config["http"]["tls"] = {"certificate": cert, "key": key}
        path = os.path.join(directory, "registry.json")
        with open(path, "w") as f:
            json.dump(config, f)  # JSON is YAML
        self.log = open(os.path.join(directory, "registry.log"), "w")
        self.process = subprocess.Popen(["docker-registry", "serve", path], stdout=self.log, stderr=self.log)
        self.wait()

    def wait(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError(f"docker-registry ended with {self.process.returncode}")
                time.sleep(0.05)
        raise RuntimeError("docker-registry does not answer")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        self.log.close()


def tar_of(members):
    """members: list of (name, content) for files, (name, None) for directories, or TarInfo pairs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if content is None:
                if not isinstance(name, tarfile.TarInfo):
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size = len(content)
                if not isinstance(name, tarfile.TarInfo):
                    info.mode = 0o644
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Image:
    """Layers (uncompressed tar bytes) and what a registry serves for them."""

    def __init__(self, layers, arch="amd64", compress=gzip.compress, config=None, diff_ids=None):
        self.blobs = [compress(l) if compress else l for l in layers]
        self.config = json.dumps({
            "architecture": arch, "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": diff_ids or [sha256(l) for l in layers]},
        }).encode()
        self.manifest = json.dumps({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": sha256(self.config),
                       "size": len(self.config)},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": sha256(b), "size": len(b)}
                       for b in self.blobs],
        }).encode()

    def push(self, host, repo, tag, headers=None, tls=None):
        """Uploads with plain HTTP, independent of the code under test."""
        headers = headers or {}
        conn = (http.client.HTTPSConnection(host, context=tls) if tls else http.client.HTTPConnection(host))

        def ask(method, path, body=b"", extra=None):
            conn.request(method, path, body=body, headers={**headers, **(extra or {})})
            resp = conn.getresponse()
            data = resp.read()
            assert resp.status < 300, (method, path, resp.status, data)
            return resp

        for blob in [*self.blobs, self.config]:
            loc = ask("POST", f"/v2/{repo}/blobs/uploads/").getheader("Location")
            path = loc[loc.index("/v2/"):]
            ask("PUT", path + ("&" if "?" in path else "?") + "digest=" + sha256(blob), blob,
                {"Content-Type": "application/octet-stream"})
        ask("PUT", f"/v2/{repo}/manifests/{tag}", self.manifest,
            {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
        conn.close()
        return sha256(self.manifest)


def put_index(host, repo, tag, entries, headers=None):
    """entries: list of (arch, manifest bytes)."""
    index = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": sha256(m), "size": len(m),
                       "platform": {"os": "linux", "architecture": a}} for a, m in entries],
    }).encode()
    conn = http.client.HTTPConnection(host)
    conn.request("PUT", f"/v2/{repo}/manifests/{tag}", body=index,
                 headers={"Content-Type": "application/vnd.oci.image.index.v1+json", **(headers or {})})
    assert conn.getresponse().status == 201
    conn.close()
