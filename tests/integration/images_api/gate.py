"""A registry of one image that counts what is asked of it, and holds layers back until it is told."""

import http.server
import re
import threading

from registry import sha256


class Gate:
    def __init__(self, image, closed=False):
        self.image = image
        self.blobs = {sha256(b): b for b in [*image.blobs, image.config]}
        self.layers = {sha256(b) for b in image.blobs}
        self.counts = {}
        self.lock = threading.Lock()
        self.open = threading.Event()  # layers are sent
        self.asked = threading.Event()  # one was asked for
        self.broken = 0  # layers answered with an error
        if not closed:
            self.open.set()
        gate = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def send(self, status, body, ctype):
                self.send_response(status)
                self.send_header("Content-Type", ctype)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                with gate.lock:
                    gate.counts[self.path] = gate.counts.get(self.path, 0) + 1
                if "/manifests/" in self.path:
                    self.send(200, gate.image.manifest, "application/vnd.oci.image.manifest.v1+json")
                    return
                digest = self.path.rsplit("/", 1)[1]
                blob = gate.blobs.get(digest)
                if blob is None:
                    self.send(404, b"{}", "application/json")
                elif digest in gate.layers:
                    self.layer(blob)
                else:
                    self.send(200, blob, "application/octet-stream")

            def layer(self, blob):
                if gate.broken:
                    gate.broken -= 1
                    gate.asked.set()
                    self.send(403, b"{}", "application/json")
                    return
                start = int(re.match(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-")).group(1))
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(blob) - 1}/{len(blob)}")
                self.send_header("Content-Length", str(len(blob) - start))
                self.end_headers()
                half = max(start, len(blob) // 2)
                self.wfile.write(blob[start:half])
                self.wfile.flush()
                gate.asked.set()
                gate.open.wait(120)
                try:
                    self.wfile.write(blob[half:])
                except OSError:
                    pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.name = f"127.0.0.1:{self.server.server_port}/t/gated:1"

    def layer_requests(self):
        with self.lock:
            return {d: self.counts.get(f"/v2/t/gated/blobs/{d}", 0) for d in self.layers}

    def manifest_requests(self):
        with self.lock:
            return self.counts.get("/v2/t/gated/manifests/1", 0)

    def close(self):
        self.open.set()
        self.server.shutdown()
        self.server.server_close()
