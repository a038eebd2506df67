#!/usr/bin/python3
"""Builds the images of our own programs, without a container engine and without a registry.

    tools/images.py [--bin DIR] [--out DIR] [--ca FILE]... [--name NAME[:TAG]]

An image is one program, the shared libraries it needs (this machine's), the certificates of public authorities, and
nothing else: no shell. What is written can be given to `docker load`, to `osb image import`, and to anything that reads an OCI
layout: one archive holds both forms. The same inputs make the same bytes.

`--ca` adds an authority (PEM) that the sidecar accepts when it verifies the servers it injects credentials for."""

import argparse
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USER = 10042  # of the sidecar's worker
CERTS = "/etc/ssl/certs"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}


def libraries(program):
    """Paths of everything the dynamic loader would open for it, the loader included."""
    r = subprocess.run(["ldd", program], capture_output=True, text=True)
    if r.returncode != 0:
        return []  # static
    if "not found" in r.stdout:
        sys.exit(f"images: a library of {program} is missing:\n{r.stdout}")
    return sorted(set(re.findall(r"(/[^ ]+) \(0x", r.stdout)))


class Tree:
    """The files of an image, in memory."""

    def __init__(self):
        self.entries = {}

    def add(self, path, data=b"", mode=0o644, kind=tarfile.REGTYPE, uid=0, link=""):
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self.add(parent, mode=0o755, kind=tarfile.DIRTYPE)
        info = tarfile.TarInfo(path + ("/" if kind == tarfile.DIRTYPE else ""))
        info.type, info.mode, info.uid, info.gid, info.size, info.linkname = kind, mode, uid, uid, len(data), link
        self.entries[path] = (info, data)

    def add_dir(self, path, mode=0o755, uid=0):
        self.add(path, mode=mode, kind=tarfile.DIRTYPE, uid=uid)

    def add_program(self, path, source):
        for library in libraries(source):
            with open(library, "rb") as f:
                self.add(library.lstrip("/"), f.read(), 0o755)
        with open(source, "rb") as f:
            self.add(path, f.read(), 0o755)

    def add_certificates(self, more=()):
        """As OpenSSL looks for them in a directory: by hash. Links are followed, nothing else is kept."""
        for name in sorted(os.listdir(CERTS)) if os.path.isdir(CERTS) else ():
            if re.fullmatch(r"[0-9a-f]{8}\.[0-9]+", name) and os.path.exists(f"{CERTS}/{name}"):
                with open(f"{CERTS}/{name}", "rb") as f:
                    self.add(f"etc/ssl/certs/{name}", f.read())
        for path in more:
            hashed = subprocess.run(["openssl", "x509", "-noout", "-subject_hash", "-in", path], check=True,
                                    capture_output=True, text=True).stdout.strip()
            n = 0
            while f"etc/ssl/certs/{hashed}.{n}" in self.entries:
                n += 1
            with open(path, "rb") as f:
                self.add(f"etc/ssl/certs/{hashed}.{n}", f.read())

    def tar(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
            for path in sorted(self.entries):
                info, data = self.entries[path]
                t.addfile(info, io.BytesIO(data))
        return out.getvalue()


def egress_tree(binary, cas=()):
    t = Tree()
    t.add_program("usr/bin/opensandbox-egress", binary)
    t.add_certificates(cas)
    t.add("etc/passwd", f"root:x:0:0:root:/:/\negress:x:{USER}:{USER}:egress:/:/\n".encode())
    t.add("etc/group", f"root:x:0:\negress:x:{USER}:\n".encode())
    t.add_dir("var/egress/rules")
    t.add_dir("var/lib/opensandbox-egress", 0o700, USER)
    # A volume that is mounted here begins with this owner and mode: the sidecar leaves its certificate, the sandbox its
    # bundle, and neither can take the other's away.
    t.add_dir("opt/opensandbox", 0o1777, USER)
    t.add_dir("tmp", 0o1777)
    return t


EGRESS_CONFIG = {
    "Env": ["PATH=/usr/bin", f"OPENSANDBOX_EGRESS_UID={USER}", f"OPENSANDBOX_EGRESS_GID={USER}",
            "OPENSANDBOX_EGRESS_STATE_DIR=/var/lib/opensandbox-egress"],
    "Entrypoint": ["/usr/bin/opensandbox-egress", "--supervise"],
    "WorkingDir": "/",
    "ExposedPorts": {"18080/tcp": {}},
    "Labels": {"org.opencontainers.image.title": "opensandbox-egress",
               "org.opencontainers.image.description": "outbound policy and credential vault of one sandbox"},
}


def archive(layer, config, name, out):
    """Writes one image in both forms. Returns its id."""
    blobs = {}

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return digest

    def dump(value):
        return json.dumps(value, separators=(",", ":")).encode()

    layer_digest = blob(layer)
    image = dump({"architecture": ARCH.get(platform.machine(), platform.machine()), "os": "linux", "config": config,
                  "created": "1970-01-01T00:00:00Z",
                  "rootfs": {"type": "layers", "diff_ids": ["sha256:" + layer_digest]}})
    config_digest = blob(image)
    manifest = dump({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                     "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                                "digest": "sha256:" + config_digest, "size": len(image)},
                     "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar",
                                 "digest": "sha256:" + layer_digest, "size": len(layer)}]})
    manifest_digest = blob(manifest)
    index = {"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + manifest_digest,
        "size": len(manifest), "annotations": {"io.containerd.image.name": name,
                                               "org.opencontainers.image.ref.name": name.rsplit(":", 1)[1]}}]}
    docker = [{"Config": f"blobs/sha256/{config_digest}", "RepoTags": [name],
               "Layers": [f"blobs/sha256/{layer_digest}"]}]
    files = {**blobs, "oci-layout": dump({"imageLayoutVersion": "1.0.0"}), "index.json": dump(index),
             "manifest.json": dump(docker)}
    fd, tmp = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(out)))
    with os.fdopen(fd, "wb") as f, tarfile.open(fileobj=f, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for path in sorted(files):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(files[path]), 0o644
            t.addfile(info, io.BytesIO(files[path]))
    os.chmod(tmp, 0o644)
    os.rename(tmp, out)
    return "sha256:" + config_digest


def build_egress(binary, out, name="opensandbox-egress:latest", cas=()):
    name = name if ":" in name.rsplit("/", 1)[-1] else name + ":latest"
    return archive(egress_tree(binary, cas).tar(), EGRESS_CONFIG, name, out)


def main():
    ap = argparse.ArgumentParser(description="builds the images of our own programs")
    ap.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"))
    ap.add_argument("--out", default=os.path.join(ROOT, "build", "images"))
    ap.add_argument("--ca", action="append", default=[])
    ap.add_argument("--name", default="opensandbox-egress:latest")
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    out = os.path.join(args.out, "opensandbox-egress.tar")
    image = build_egress(os.path.join(args.bin, "opensandbox-egress"), out, args.name, args.ca)
    print(f"{os.path.relpath(out)}  {os.path.getsize(out) / 1e6:.1f} MB  {image}")
    print(f"docker load -i {os.path.relpath(out)}    then in the server's configuration: [egress] image = \"{args.name}\"")


if __name__ == "__main__":
    main()
