"""The published clients: which versions, where they are installed, and what was found out about them.

Installed once a machine, into a cache outside the clone where there is a place for one ($OSB_CACHE, else ~/.cache), else below
build/. A registry that cannot be reached, or that has not got the package, is said with its own words."""

import concurrent.futures
import fcntl
import inspect
import json
import os
import re
import shutil
import subprocess
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RESULTS = os.path.join(ROOT, "build", "test", "conformance")
PYTHON_PINS = ["opensandbox[pool-redis]==1.1.1", "opensandbox-code-interpreter==1.1.1", "opensandbox-cli==1.1.1", "opensandbox-mcp==1.1.1"]


def cache_dir(*parts):
    home = os.environ.get("OSB_CACHE") or os.path.join(os.path.expanduser("~"), ".cache")
    top = os.path.join(home, "opensandbox-conformance")
    if not os.access(home, os.W_OK):
        top = os.path.join(ROOT, "build", "conformance")
    path = os.path.join(top, *parts)
    os.makedirs(path, exist_ok=True)
    return path


class Unavailable(Exception):
    """A registry's refusal, in its own words."""


def plain(text):
    """Without addresses and colours: what is left says the same on every machine."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return re.sub(r"\s+", " ", re.sub(r"\(?https?://[^\s)]*\)?", "the registry", text)).strip()


def install(name, make):
    """`make(dir)` fills a new directory once; two runs at a time wait for each other."""
    where = cache_dir(name)
    with open(where + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(where, "ready")):
            shutil.rmtree(where, ignore_errors=True)
            os.makedirs(where)
            make(where)
            open(os.path.join(where, "ready"), "w").close()
    return where


def must(cmd, **kw):
    r = subprocess.run(cmd, capture_output=True, text=True, stdin=subprocess.DEVNULL, **kw)
    if r.returncode != 0:
        said = [line for line in (r.stderr + r.stdout).splitlines() if line.strip()]
        told = [line for line in said if re.search(r"could not|not be found|not available|no matching|refused|forbidden", line, re.I)]
        raise Unavailable(plain((told or said or ["no answer"])[0])[:500])
    return r.stdout


def remembered(name, ask, days=7):
    """What `ask()` says, or said lately: some registries take their time to say no."""
    path = os.path.join(cache_dir("answers"), name)
    if not os.path.exists(path) or time.time() - os.path.getmtime(path) > days * 86400:
        answer = ask()
        with open(path + ".new", "w") as f:
            f.write(answer)
        os.rename(path + ".new", path)
    with open(path) as f:
        return f.read()


def python_env():
    """An interpreter that has every Python client, and pytest from the system."""
    tag = "-".join(re.sub(r"[^a-z0-9.]+", "", p.split("==")[0].split("-")[-1]) + p.split("==")[1] for p in PYTHON_PINS)

    def make(where):
        must(["/usr/bin/python3", "-m", "venv", "--system-site-packages", where])
        must([os.path.join(where, "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c",
              os.path.join(HERE, "python", "constraints.txt"), *PYTHON_PINS])
    return os.path.join(install("python-" + tag, make), "bin", "python")


def on_both(fn):
    """Makes of a test with a `place` (and a `tmp_path`) one that runs on every place at the same time: they wait more than they compute."""
    wanted = inspect.signature(fn)

    def test(places, tmp_path, **more):
        def one(place):
            own = tmp_path / place.runtime
            own.mkdir()
            given = {"place": place, "tmp_path": own, **more}
            return fn(**{k: given[k] for k in wanted.parameters})
        with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
            for done in [pool.submit(one, p) for p in places]:
                done.result()
    test.__name__, test.__doc__, test.__module__ = fn.__name__, fn.__doc__, fn.__module__
    names = ["places", "tmp_path", *[n for n in wanted.parameters if n not in ("place", "tmp_path")]]
    test.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names])
    return test


def record(client, package, version, runtime, methods, worked, refused, result, reason=""):
    """One row of the table: what there is to call, what was called with success, what the server refuses because it does
    not offer it, and what was not called at all."""
    os.makedirs(RESULTS, exist_ok=True)
    row = {"client": client, "package": package, "version": version, "runtime": runtime, "result": result, "reason": reason,
           "methods": len(methods), "worked": len(set(worked) & set(methods)), "refused": sorted(refused),
           "not_called": sorted(set(methods) - set(worked) - set(refused))}
    name = re.sub(r"[^a-z0-9]+", "-", f"{client} {runtime}".lower()).strip("-")
    with open(os.path.join(RESULTS, name + ".json"), "w") as f:
        json.dump(row, f, indent=1)
        f.write("\n")
    print(f"{client} {version} on {runtime}: {result}, {row['worked']} of {row['methods']} methods"
          + (f", {len(refused)} not offered" if refused else "") + (f", not called: {row['not_called']}" if row["not_called"] else "")
          + (f" ({reason})" if reason else ""))
    return row


def unavailable(client, package, version, why):
    """Said in the output, and nothing else is skipped."""
    for runtime in ("embedded", "docker"):
        record(client, package, version, runtime, [], [], {}, "unavailable", str(why))
    pytest.skip(f"{package} {version} cannot be had: {why}")
