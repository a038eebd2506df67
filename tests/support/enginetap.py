"""A socket in front of the tests' Docker engine that passes everything on, remembers what was asked for, and can change
single answers, for machines that this one is not."""

import contextlib
import http.client
import json
import os
import socketserver
import threading

from dockerbox import UnixConnection


class Tap:
    """`asked` holds (method, path, body) of every request; `answers` maps the end of a path to a function that changes the
    engine's JSON."""

    def __init__(self, engine, answers=None, before=None):
        self.engine, self.answers, self.asked = engine, answers or {}, []
        self.before = before or (lambda method, path, body: None)  # called before a request goes on
        self.path = f"/run/{engine.name}-tap-{id(self):x}.sock"
        self.url = f"unix://{self.path}"
        tap = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                    while tap.pass_on(self.rfile, self.wfile):
                        pass

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            block_on_close = False

        self.server = Server(self.path, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def pass_on(self, rfile, wfile):
        line = rfile.readline().decode()
        if not line:
            return False
        method, target, _ = line.split(" ")
        headers = http.client.parse_headers(rfile)
        body = rfile.read(int(headers.get("Content-Length", 0)))
        with contextlib.suppress(ValueError):
            asked = (method, target, json.loads(body) if body else None)
            self.asked.append(asked)
            self.before(*asked)
        c = UnixConnection(self.engine.socket, timeout=600)
        c.request(method, target, body or None, {k: v for k, v in headers.items() if k.lower() not in ("host", "expect")})
        r = c.getresponse()
        change = next((f for end, f in self.answers.items() if target.split("?")[0].endswith(end)), None)
        head = [f"HTTP/1.1 {r.status} {r.reason}"]
        head += [f"{k}: {v}" for k, v in r.getheaders() if k.lower() not in ("content-length", "transfer-encoding", "connection")]
        if change:
            text = json.dumps(change(json.loads(r.read()))).encode()
            wfile.write(("\r\n".join([*head, f"Content-Length: {len(text)}"]) + "\r\n\r\n").encode() + text)
        else:  # its end is the connection's: streams as they come
            wfile.write(("\r\n".join([*head, "Connection: close"]) + "\r\n\r\n").encode())
            while data := r.read1(65536):
                wfile.write(data)
        wfile.flush()
        c.close()
        return bool(change)

    def bodies(self, word):
        """What was sent to paths that hold this word."""
        return [body for _, path, body in self.asked if word in path and body]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)
