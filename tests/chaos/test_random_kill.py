"""Clients create, pause, resume and delete while the server is killed again and again. In the end
every sandbox that was promised is there and answers, every one that was deleted is gone, and nothing
else is left. OSB_CHAOS_KILLS is the number of kills (40)."""

import os
import random
import threading
import time

import requests
from osbserver import request_body, wait_for

KILLS = int(os.environ.get("OSB_CHAOS_KILLS", "40"))
CLIENTS = 4


class Client(threading.Thread):
    """Remembers what it was promised. `unsure` holds ids whose last request got no answer."""

    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.server, self.random = server, random.Random(seed)
        self.seed = seed
        self.alive, self.gone, self.errors = set(), set(), []
        self.stop = False
        self.n = 0

    def call(self, method, path, body=None, headers=None):
        """Until it gets an answer: the server comes back."""
        while True:
            try:
                h = {"OPEN-SANDBOX-API-KEY": self.server.key, **(headers or {})}
                return requests.request(method, self.server.url + path, json=body, headers=h, timeout=60)
            except requests.exceptions.RequestException:
                if self.stop and self.server.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def create(self):
        self.n += 1
        r = self.call("POST", "/v1/sandboxes", request_body(timeout=3600, resourceLimits={}),
                      {"Idempotency-Key": f"c{self.seed}-{self.n}"})
        if r.status_code == 202:
            self.alive.add(r.json()["id"])
        elif r.status_code not in (409, 503):
            self.errors.append(f"create: {r.status_code} {r.text}")

    def act(self, id):
        what = self.random.choice(["pause", "resume", "delete", "get"])
        if what == "delete":
            r = self.call("DELETE", f"/v1/sandboxes/{id}")
            if r.status_code in (204, 404):  # 404: an earlier try had been heard
                self.alive.discard(id)
                self.gone.add(id)
            elif r.status_code != 409:
                self.errors.append(f"delete: {r.status_code} {r.text}")
        elif what == "get":
            r = self.call("GET", f"/v1/sandboxes/{id}")
            if r.status_code != 200:
                self.errors.append(f"lost {id}: {r.status_code} {r.text}")
        else:
            r = self.call("POST", f"/v1/sandboxes/{id}/{what}")
            if r.status_code not in (202, 409):
                self.errors.append(f"{what}: {r.status_code} {r.text}")

    def run(self):
        try:
            while not self.stop:
                if len(self.alive) < 3:
                    self.create()
                else:
                    self.act(self.random.choice(sorted(self.alive)))
        except requests.exceptions.RequestException as e:
            self.errors.append(str(e))


def test_random_kills(make):
    s = make()
    port = s.url.rsplit(":", 1)[1]
    s.write_config(f"[server]\nport = {port}\n")  # the same one after each start
    clients = [Client(s, i) for i in range(CLIENTS)]
    for c in clients:
        c.start()
    rnd = random.Random(1)
    for _ in range(KILLS):
        time.sleep(rnd.uniform(0.05, 0.8))
        s.kill()
        s.start()
    for c in clients:
        c.stop = True
    for c in clients:
        c.join(120)
    assert not [e for c in clients for e in c.errors]
    alive, gone = set().union(*(c.alive for c in clients)), set().union(*(c.gone for c in clients))
    wait_for("agreement", lambda: {x["id"] for x in s.list() if x["status"]["state"] in ("Running", "Paused")} >= alive)
    seen = {x["id"]: x["status"]["state"] for x in s.list()}
    assert not gone & set(seen), "deleted sandboxes came back"
    for id in alive:
        if seen[id] == "Paused":
            s.ok("POST", f"/v1/sandboxes/{id}/resume")
        assert s.ping(id), f"{id} does not answer"
    # What nobody knows of: creates whose key was never asked for again.
    for id in seen:
        s.delete(id)
    s.assert_clean()
