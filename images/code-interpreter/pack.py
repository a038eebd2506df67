#!/usr/bin/python3
"""Writes a root file system as `docker save` does: pack.py DIR ARCHIVE NAME. One layer, its configuration, and a list of both.

The layer is written once, straight into the archive, while its digest is taken; its size is filled in afterwards.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
EPOCH = "1970-01-01T00:00:00Z"
CHUNK = 1 << 20


def header(name, size):
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)  # one block, whatever the size


def add(out, name, value):
    data = json.dumps(value, separators=(",", ":")).encode()
    out.write(header(name, len(data)) + data + bytes(-len(data) % 512))


def add_layer(out, directory):
    """Returns the digest of what is in the directory."""
    start = out.tell()
    out.write(header("layer.tar", 0))
    digest, size = hashlib.sha256(), 0
    with subprocess.Popen(["tar", "-C", directory, "--numeric-owner", "--sort=name", "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
        while chunk := tar.stdout.read(CHUNK):
            digest.update(chunk)
            out.write(chunk)
            size += len(chunk)
    if tar.returncode:
        sys.exit(tar.returncode)
    out.write(bytes(-size % 512))
    out.seek(start)
    out.write(header("layer.tar", size))
    out.seek(0, io.SEEK_END)
    return digest.hexdigest()


def main():
    directory, archive, name = sys.argv[1:]
    with open(archive, "wb", buffering=CHUNK) as out:
        digest = add_layer(out, directory)
        add(out, "config.json", {
            "architecture": "amd64", "os": "linux", "created": EPOCH,
            "config": {"Env": ["PATH=" + PATH, "EXECD_CODE_PRESTART=python"], "Entrypoint": ["/opt/code-interpreter/code-interpreter.sh"],
                       "WorkingDir": "/workspace"},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
            "history": [{"created": EPOCH, "created_by": "images/code-interpreter/build"}]})
        add(out, "manifest.json", [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}])
        out.write(bytes(1024))


main()
