"""Loaded by schemathesis: what our servers promise of every answer, and what keeps thousands of random requests within
this machine. Which server is asked stands in OSB_PROPERTY (lifecycle, execd or egress)."""

import atexit
import collections
import io
import json
import os
import posixpath
import re
import tarfile
import zlib

import requests
import schemathesis

KIND = os.environ["OSB_PROPERTY"]
KEEP = 12  # sandboxes, pools and snapshots of a run that stay; older ones make room
IMAGE_NAME = re.compile(r"^[a-z0-9][\w.:/@-]*$", re.I)
NOWHERE = "127.0.0.1:9/none"  # an image of a registry that does not answer
session = requests.Session()
session.trust_env = False


def share(value, of):
    """Decides by the value alone, so that a run can be repeated."""
    return zlib.crc32(repr(value).encode(errors="replace")) % of == 0


# ---- what every answer must be ----

# The daemon's protocol has one status for whatever the system refuses; it must say so itself. Nothing else may be a 5xx,
# but for a full server, which says when to come again, and for what stands behind a gateway.
@schemathesis.check
def no_server_error(ctx, response, case):
    status = response.status_code
    if status < 500:
        return
    path = case.operation.path
    if status == 503 and response.headers.get("retry-after"):
        return
    if status in (502, 503, 504) and ("/proxy/" in path or path.endswith("/push") or path == "/images"):
        return
    body = response.content.decode(errors="replace")
    if path == "/sandboxes" and '"DOCKER::SANDBOX_IMAGE_PULL_FAILED"' in body:
        return
    if KIND == "execd" and status == 500 and json.loads(body or "{}").get("code") == "RUNTIME_ERROR":
        return
    raise AssertionError(f"{status}: {body[:500]}")


# ---- what keeps it small ----

VALID = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "resourceLimits": {"cpu": "1", "memory": "128Mi"}, "timeout": 600}
alive = collections.OrderedDict()


def name_of_image(node):
    """A name that could be pulled is one of a registry that refuses at once: nothing leaves this machine."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("uri", "target", "image") and isinstance(value, str) and IMAGE_NAME.match(value) and value != "host":
                node[key] = NOWHERE
            else:
                name_of_image(value)
    elif isinstance(node, list):
        for value in node:
            name_of_image(value)


def clamp(node, keys, most):
    if isinstance(node, dict):
        for key, value in node.items():
            if key in keys and isinstance(value, int) and not isinstance(value, bool) and value > most:
                node[key] = most
            clamp(value, keys, most)


def archive():
    """A root file system that can be imported."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("etc/hello")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    return out.getvalue()


ARCHIVE = archive()


def newest(kind):
    return next((id for k, id in reversed(alive) if k == kind), None)


def lifecycle(case):
    path, body, params = case.operation.path, case.body, case.path_parameters or {}
    for name, kind in (("sandboxId", "sandboxes"), ("snapshotId", "snapshots")):
        if name in params and newest(kind) and share(params, 2):
            params[name] = newest(kind)
    if "/proxy/" in path and share(params, 3):
        params["port"] = 44772
        if "path" in params:
            params["path"] = "ping"
    if "image" in params and share(params, 3):
        params["image"] = "osbt%3A1"
    if path == "/images/import" and share(body, 2):
        case.body, case.query = ARCHIVE, {"name": "osbt:1"}
    if isinstance(body, dict):
        name_of_image(body)
        clamp(body, ("bufferMax", "bufferMin", "poolMax", "poolMin", "count"), 2)
        if path == "/sandboxes" and share(body, 2):
            case.body = {**VALID, **{k: v for k, v in body.items() if share((k, v), 3)}}
            if case.headers:  # the answer to an earlier one may name a sandbox that made room since
                case.headers.pop("Idempotency-Key", None)
        if path.startswith("/pools") and share(body, 2) and isinstance(body.get("template"), dict):
            body["template"] = {k: VALID[k] for k in ("image", "entrypoint", "resourceLimits")}


def inside(path):
    """A path of the daemon, kept to a directory that nothing else needs."""
    if not isinstance(path, str):
        return path
    where = posixpath.normpath(posixpath.join("/tmp/p", path))
    if where.startswith("/tmp/p/") and "$" not in path and "~" not in path:
        return path
    return "/tmp/p/" + path.replace("/", "_").replace("..", "_")


def execd(case):
    path, body, query, params = case.operation.path, case.body, case.query or {}, case.path_parameters or {}
    top = path.split("/")[1]
    if "id" in params and newest(top) and share(params, 2):
        params["id"] = newest(top)
    if "rest" in params and share(params, 2):
        params["rest"] = "44772/ping"
    if not path.startswith(("/files", "/directories")):
        return
    if "path" in query:
        if case.method.upper() == "DELETE":
            query["path"] = [inside(p) for p in query["path"]] if isinstance(query["path"], list) else inside(query["path"])
        elif share(query, 2):
            query["path"] = "/tmp/p" if path in ("/directories/list", "/files/search") else "/tmp/keep"
    if path == "/files/replace":
        case.query = {**query, "verbose": "true"}  # without it there is no body, which a document cannot say
    if path.endswith("/mv") and isinstance(body, list):
        for item in body:
            if isinstance(item, dict):
                for key in ("src", "dest"):
                    if key in item:
                        item[key] = inside(item[key])
    if path in ("/directories", "/files/permissions", "/files/replace") and isinstance(body, dict):
        case.body = {inside(k): v for k, v in body.items()}


VAULT = {"credentials": [{"name": "github", "source": {"type": "inline", "value": "secret"}}],
         "bindings": [{"name": "api", "match": {"hosts": ["api.good.test"]}, "auth": {"type": "bearer", "credential": "github"}}]}
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.good.test"}]}


def egress(case):
    """Names that are there, and now and then a vault that can be made."""
    path, params, method = case.operation.path, case.path_parameters or {}, case.method.upper()
    headers = {"OPENSANDBOX-EGRESS-AUTH": os.environ["OSB_KEY"]}
    if "name" in params and share(params, 2):
        params["name"] = "github" if "credentials" in path else "api"
    if path == "/policy" and method in ("PUT", "POST", "PATCH") and share(case.body, 3):
        case.body = POLICY["egress"] if method == "PATCH" else POLICY
    if path == "/credential-vault" and method == "POST" and share(case.body, 2):
        session.delete(os.environ["OSB_URL"] + path, headers=headers, timeout=60)
        session.put(os.environ["OSB_URL"] + "/policy", json=POLICY, headers=headers, timeout=60)
        case.body = VAULT


@schemathesis.hook
def before_call(ctx, case, kwargs):
    {"lifecycle": lifecycle, "execd": execd, "egress": egress}[KIND](case)


tally = collections.defaultdict(collections.Counter)


@atexit.register
def say():
    """What was asked how often, and answered with what."""
    with open(os.environ["OSB_TALLY"], "w") as f:
        json.dump(tally, f)


@schemathesis.hook
def after_call(ctx, case, response):
    tally[case.operation.label][response.status_code] += 1
    make_room(case, response)


def make_room(case, response):
    """Remembers what was made; beyond KEEP the oldest goes."""
    path, post = case.operation.path, case.method.upper() == "POST"
    if KIND == "execd" and post and response.status_code in (200, 201):
        if path in ("/session", "/pty"):
            alive[path[1:], response.json()["session_id"]] = True
        elif path == "/command":
            alive["command", json.loads(response.content.split(b"\n")[0])["text"]] = True
    if KIND != "lifecycle" or not post or response.status_code not in (201, 202):
        return
    kind = {"/sandboxes": "sandboxes", "/sandboxes/{sandboxId}/fork": "sandboxes", "/pools": "pools",
            "/sandboxes/{sandboxId}/snapshots": "snapshots"}.get(path)
    if kind is None:
        return
    made = response.json()
    for one in made.get("items", [made]):
        alive[kind, one.get("id") or one.get("name")] = True
    while sum(k == kind for k, _ in alive) > KEEP:
        old = next(key for key in alive if key[0] == kind)
        del alive[old]
        session.delete(f"{os.environ['OSB_URL']}/{old[0]}/{old[1]}", headers={"OPEN-SANDBOX-API-KEY": os.environ["OSB_KEY"]}, timeout=60)
