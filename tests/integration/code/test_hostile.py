"""Kernels and Jupyter servers that are broken or mean harm: whatever they do, each run ends exactly once, the context can be used
again or is gone, and execd stays as it was."""

import concurrent.futures
import json
import os
import signal
import time

import pytest

from conftest import WAIT, check, wait_for
from execd_client import Events, Raw
from hostile_jupyter import Server

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL = os.path.join(HERE, "hostile_kernel.py")


@pytest.fixture
def hostile(launch, tmp_path):
    """A client of an execd whose `bash` is the hostile kernel."""
    target = tmp_path / "share/kernels/hostile"
    os.makedirs(target)
    spec = {"argv": ["/usr/bin/python3", "-S", "-E", KERNEL, "{connection_file}"], "display_name": "h", "language": "bash"}
    (target / "kernel.json").write_text(json.dumps(spec))
    return launch


class Run:
    """A run under way."""

    def __init__(self, code, context, text):
        self.raw = Raw(code.execd, "POST", "/code", {"code": text, "context": {"language": "bash", "id": context}})
        self.raw.sock.settimeout(WAIT)
        self.raw.head()
        self.got = self.raw.until(b'"init"')

    def until(self, mark):
        self.got += self.raw.until(mark)

    def end(self):
        ev = check(Events(self.got + self.raw.body()))
        self.raw.close()
        return ev


# What it does, and the name of the error that the run ends with; None: it ends well.
MISDEEDS = {
    "dies": ("os._exit(5)", "KernelDied"),
    "is killed": ("os.kill(os.getpid(), 9)", "KernelDied"),
    "closes its shell": ("shell.peer.close(); shell.listener.close(); time.sleep(99)", "KernelDied"),
    "closes its output": ("iopub.peer.shutdown(2); time.sleep(99)", "KernelDied"),
    "closes its control": ("control.peer.shutdown(2); time.sleep(99)", "KernelDied"),
    "sends garbage": ("iopub.peer.sendall(b'GET / HTTP/1.1' + bytes([255]) * 4096); time.sleep(99)", "KernelDied"),
    "sends reserved flags": ("shell.peer.sendall(b'\\xf8\\0'); time.sleep(99)", "KernelDied"),
    "sends a length beyond 2^63": ("iopub.peer.sendall(b'\\2' + b'\\xff' * 8); time.sleep(99)", "KernelDied"),
    "sends a huge command": ("iopub.peer.sendall(b'\\6' + struct.pack('>Q', 1 << 40)); time.sleep(99)", "KernelDied"),
    "sends a command inside a message": ("iopub.peer.sendall(b'\\1\\1a\\4\\5\\4PING'); time.sleep(99)", "KernelDied"),
    "sends a thousand parts": ("iopub.send([b'x'] * 1000); time.sleep(99)", "KernelDied"),
    "sends empty messages": ("iopub.peer.sendall(b'\\0\\0' * 5000); done()", None),
    "forges the key": ("send(iopub, 'error', {'ename': 'Forged', 'evalue': '', 'traceback': []}, key=b'x')\n"
                       "send(shell, 'execute_reply', {'status': 'error', 'ename': 'Forged'}, key=b'')\ndone()", None),
    "answers for another run": ("p = dict(parent, msg_id='0' * 36)\nout('not mine', above=p)\n"
                                "send(shell, 'execute_reply', {'status': 'error'}, above=p)\nout('mine', above=parent)\ndone()", None),
    "has no parents": ("for p in (b'', b'null', b'[]', b'{\"msg_id\":7}', b'{\"msg_id\":null}', b'\\xff'): out('x', above=p)\ndone()", None),
    "says broken JSON": ("for b in (b'', b'{', b'[1]', b'null', b'7', b'{\"a\":1,\"a\":2}', b'[' * 9999, b'{\"a\":' * 99 + b'1' + b'}' * 99,\n"
                         "          b'{\"text\":NaN}', b'\\0'): send(iopub, 'stream', b)\ndone()", None),
    "mixes up types": ("send(iopub, 'stream', {'name': 7, 'text': ['x']}); send(iopub, 'stream', {}); send(iopub, 'status', {'execution_state': 3})\n"
                       "for d in (None, 7, [], {}, {'text/plain': {'a': [1, None]}, 'text': 'y', '': ''}):\n"
                       "    for k in ('execute_result', 'display_data', 'update_display_data'):\n"
                       "        send(iopub, k, {'data': d, 'execution_count': 'x', 'transient': {'display_id': 4}})\n"
                       "send(iopub, 'execute_result', {'data': {'text/plain': 'r'}, 'execution_count': 1 << 70})\n"
                       "send(iopub, '', {}); send(iopub, 'x' * 5000, {}); done()", None),
    "errs without a name": ("send(iopub, 'error', {'traceback': {'a': 1}})\ndone(status='error')", "Error"),
    "errs with a wrong trace": ("send(iopub, 'error', {'ename': 'E', 'evalue': 7, 'traceback': [1, None, 'line', []]})\ndone(status='error')", "E"),
    "replies nonsense": ("reply(status=7); status('idle')", "ExecutionAborted"),
    "never replies": ("status('idle')", "ExecutionAborted"),
    "aborts every time": ("reply(status='aborted'); status('idle')", "ExecutionAborted"),
    "has too large an error": ("big = {'status': 'error', 'ename': 'Big', 'evalue': 'x' * (34 << 20), 'traceback': []}\n"
                               "send(iopub, 'error', big); send(shell, 'execute_reply', big); status('idle')", "OutputTooLarge"),
    "has a child that holds its sockets": ("if os.fork(): os._exit(7)\nos.setsid(); time.sleep(4)", "KernelDied"),
    "ends twice, and goes on": ("done(); done(); reply(status='error'); out('late')", None),
    "goes on and on with output of a finished run": ("done()\nfor i in range(50): out('late'); status('busy'); time.sleep(.001)", None),
}


def test_misdeeds(hostile):
    code = hostile()
    before = code.execd.fds()
    c = code.create("bash")
    for what, (text, ename) in MISDEEDS.items():
        ev = code.run(text, c, "bash")
        assert (ev.error or {}).get("ename") == ename, (what, ev.error)
        ev = code.run("out('still here'); done()", c, "bash")
        assert ev.error is None and "".join(ev.stdout) == "still here", what
    assert code.execd.log().count("was not understood") < 50
    assert code.delete(c).status_code == 200
    wait_for(lambda: code.execd.fds() <= before + 1, "descriptors to be closed", WAIT)


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def pid_of(code, context):
    return int("".join(code.run("out(str(os.getpid())); done()", context, "bash").stdout))


def test_a_stopped_kernel_ends_its_run_and_a_busy_one_does_not(hostile):
    """All of them say nothing for longer than the time after which a kernel is taken for hung; one of them is at work."""
    code = hostile("--code-hang-timeout", "4s")
    itself, before, deaf, busy = (code.create("bash") for _ in range(4))
    runs = [Run(code, busy, "end = time.monotonic() + 8\nwhile time.monotonic() < end: pass\nout('done'); done()"),
            Run(code, itself, "os.kill(os.getpid(), signal.SIGSTOP); done()")]
    pid = pid_of(code, before)
    os.kill(pid, signal.SIGSTOP)
    runs.append(Run(code, before, "done()"))
    Run(code, deaf, "done(); time.sleep(999)").end()
    runs.append(Run(code, deaf, "done()"))
    at_work, *hung = [run.end() for run in runs]
    assert at_work.stdout == ["done"] and at_work.error is None
    for ev, c in zip(hung, (itself, before, deaf)):
        assert ev.error["ename"] == "KernelDied" and "hung" in ev.error["evalue"]
        assert code.run("out('new'); done()", c, "bash").stdout == ["new"]
    wait_for(lambda: gone(pid), "the kernel to be killed", WAIT)


def test_a_kernel_that_aborts_when_interrupted(hostile):
    """As bash_kernel does; nobody who pressed Ctrl-C wants to read that the code did not run."""
    code = hostile()
    c = code.create("bash")
    run = Run(code, c, "try: out('begun'); time.sleep(999)\nexcept KeyboardInterrupt: done(status='abort')")
    run.until(b"begun")
    assert code.interrupt(c).status_code == 200
    assert run.end().error["ename"] == "KeyboardInterrupt"


def test_a_kernel_cannot_get_out_of_reach(hostile):
    """It leaves its process group, ignores signals, and is ended all the same; interrupting again and again delays nothing."""
    code = hostile()
    c = code.create("bash")
    away = ("child = os.fork()\nif child == 0:\n    os.setpgid(0, 0); time.sleep(60); os._exit(0)\ntime.sleep(.1)\n"
            "try: os.setpgid(0, child)\nexcept OSError: pass\nsignal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN)\n"
            "out(f'at {os.getpid()}.'); time.sleep(999)")
    run = Run(code, c, away)
    run.until(b'."')
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        over = pool.submit(run.end)
        while not over.done() and time.monotonic() < begin + WAIT:
            assert code.interrupt(c).status_code == 200
            time.sleep(.5)
        ev = over.result()
    pid = int("".join(ev.stdout)[3:-1])
    assert ev.error["ename"] == "KernelDied" and "did not stop" in ev.error["evalue"]
    wait_for(lambda: gone(pid), "the kernel to be killed", WAIT)
    run = Run(code, c, away)
    run.until(b'."')
    assert code.delete(c).status_code == 200
    pid = int("".join(run.end().stdout)[3:-1])
    wait_for(lambda: gone(pid), "the kernel to be killed", WAIT)


def test_floods_are_bounded(hostile):
    """Pings whose answers are not read, messages that are none, and output that the client does not read."""
    code = hostile()
    c = code.create("bash")
    code.run("big = b'x' * (20 << 20)\niopub.send([b'x', big]); done()", c, "bash")
    before = code.execd.rss_kb()
    pings = code.create("bash")
    deaf = Run(code, pings, "for i in range(600): iopub.peer.sendall((b'\\4\\x17\\4PING\\0\\0' + b'x' * 16) * 2000)\ndone()")
    slow = Run(code, c, "for i in range(20): out('y' * (1 << 20))\nout('end'); done()")
    junk = code.create("bash")
    many = Run(code, junk, "iopub.send([b'z' * (17 << 20)])\nfor i in range(64): iopub.peer.sendall(b'\\0\\0' * 65536)\ndone()")
    for _ in range(20):
        assert code.execd.get("/ping").status_code == 200
    assert many.end().error is None and deaf.end().error is None
    if not code.execd.sanitized():
        assert code.execd.rss_kb() < before + 16 * 1024, (before, code.execd.rss_kb())
    assert len("".join(slow.end().stdout)) == (20 << 20) + 3
    assert len(code.execd.log()) < 1 << 20


def test_traps_where_kernels_are_looked_for(hostile, tmp_path):
    """Whatever lies there in place of a description, execd does not wait for it."""
    code = hostile(EXECD_ENVS=str(tmp_path / "envs"))
    os.mkfifo(tmp_path / "envs")
    for i, make in enumerate((os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/zero", p), lambda p: os.symlink("/dev/tty", p), lambda p: os.symlink(p, p))):
        os.makedirs(tmp_path / f"share/kernels/trap{i}")
        make(tmp_path / f"share/kernels/trap{i}/kernel.json")
    r = code.execd.post("/code/context", json={"language": "go"})
    assert r.status_code == 500 and "this sandbox has: " in r.json()["message"] and "bash" in r.json()["message"]
    c = code.create("bash")
    trap = "os.unlink(FILE); os.symlink('/etc/passwd', FILE); done()"
    assert code.run(trap, c, "bash").error is None
    assert code.delete(c).status_code == 200
    wait_for(lambda: not [f for f in os.listdir("/tmp") if f.startswith(".execd-") and os.path.islink("/tmp/" + f)], "its file to go", WAIT)
    assert os.path.getsize("/etc/passwd") > 0


@pytest.fixture
def server():
    s = Server()
    yield s
    s.stop()


def endless(c):
    c.raw(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(4000):
        c.raw(b"1000\r\n" + b" " * 4096 + b"\r\n")


# Which answer is wrong, how, and what the creator of a context is told.
BIRTHS = {
    "refuses the token": ("specs", lambda c: c.answer(403), "JUPYTER_TOKEN"),
    "cannot create": ("create", lambda c: c.answer(500, {"message": "no memory\r\n"}), "no memory"),
    "creates nothing": ("create", lambda c: c.answer(201, b"<html>"), "does not start a kernel"),
    "creates too much": ("create", endless, "does not start a kernel"),
    "hangs up": ("create", lambda c: c.request.close(), "does not start a kernel"),
    "has no kernel for us": ("channels", lambda c: c.answer(404), "HTTP 404"),
    "is broken": ("channels", lambda c: c.answer(500), "HTTP 500"),
    "speaks something else": ("channels", lambda c: c.raw(b"SSH-2.0-x\r\n" * 99), "does not connect"),
    "does not know the key": ("channels", lambda c: c.accept(b"x" * 20), "does not connect"),
    "closes at once": ("channels", lambda c: (c.accept(), c.request.close()), "closed the connection"),
    "sends reserved bits": ("channels", lambda c: (c.accept(), c.raw(b"\xf1\x01x"), time.sleep(5)), "closed the connection"),
    "says it is dead": ("sync", lambda c, parent: c.send("status", {"execution_state": "dead"}, {}), "could not start it again"),
}
IDS = ("", 7, None, "..", "a/b", "a b", "a\r\nX: y", "x" * 129, "\u00e9", "a?b")

# What a kernel behind Jupyter does, and what the run is told; None: it ends well.
DEEDS = {
    "closes": ("ws.frame(struct.pack('>H', 1000), 8)", "broke"),
    "hangs up": ("ws.request.close()", "broke"),
    "resets": ("ws.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); ws.request.close()", "broke"),
    "sends no UTF-8": ("ws.frame(b'{\"\\xff'); time.sleep(1)", "broke"),
    "sends masked frames": ("ws.raw(b'\\x81\\x81aaaax'); time.sleep(1)", "broke"),
    "sends too much": ("ws.raw(b'\\x81\\x7f' + struct.pack('>Q', 1 << 40)); time.sleep(1)", "32 MiB"),
    "sends fragments without end": ("ws.frame(b'x', 1, 0)\ntry:\n    while True: ws.frame(b'x' * (1 << 20), 0, 0)\nexcept OSError: pass", "32 MiB"),
    "restarts": ("state('restarting')", "was restarted"),
    "is restarted by Jupyter": ("state('autorestarting')", "was restarted"),
    "dies": ("state('dead')", "could not start it again"),
    "says nonsense": ("for t in (b'', b'{', b'[]', b'7', b'{}', b'{\"content\":{}}', b'{\"content\":{},\"header\":{\"msg_type\":\"status\"}}'): ws.frame(t)\n"
                      "ws.frame(b'\\xff', 2); ws.frame(b'', 9); ws.frame(b'x', 10)\nsend('status', {'execution_state': 'idle'}, {'msg_id': 7})\n"
                      "send('execute_reply', {'status': 'error'}, {'msg_id': 'other'}); done()", None),
}


def test_a_jupyter_server_that_goes_wrong(hostile, server):
    code = hostile(JUPYTER_HOST=server.url, JUPYTER_TOKEN="t")
    before = code.execd.fds()
    plans = [*BIRTHS.values()]
    plans += [("create", lambda c, i=i: c.answer(201, {"id": i, "kernel": {"id": "k"}}), "does not start a kernel") for i in IDS]
    plans += [("create", lambda c, i=i: c.answer(201, {"id": "s", "kernel": {"id": i}}), "does not start a kernel") for i in IDS]
    for what, plan, told in plans:
        server.plan = {what: plan}
        r = code.execd.post("/code/context", json={"language": "bash"})
        assert r.status_code == 500 and told in r.json()["message"], (what, r.text)
        r = code.post("done()", language="bash")
        assert r.status_code == 500 and told in r.json()["message"], (what, r.text)
    server.plan = {}
    assert code.contexts() == []
    c = code.create("bash")
    for what, (text, told) in DEEDS.items():
        ev = code.run(text, c, "bash")
        assert told in ev.error["evalue"] if told else ev.error is None, (what, ev.error)
        ev = code.run("send('stream', {'name': 'stdout', 'text': 'still here'}); done()", c, "bash")
        assert ev.error is None and ev.stdout == ["still here"], (what, ev.error)
    assert code.delete(c).status_code == 200
    wait_for(lambda: "DELETE create" in server.seen[-1:], "its session to be deleted", WAIT)
    server.stop()
    wait_for(lambda: code.execd.fds() <= before + 1, "descriptors to be closed", WAIT)


def test_a_jupyter_server_that_says_nothing(hostile, server):
    """Kernels that were taken away, an interrupt that is not answered, a server that sleeps: each run ends, and none is sent twice."""
    code = hostile("--code-hang-timeout", "4s", JUPYTER_HOST=server.url, JUPYTER_TOKEN="t")
    before = code.execd.fds()
    removed, restarted, misjudged, asleep, stubborn, ghost = (code.create("bash") for _ in range(6))
    # The connection is lost, and the kernel restarted while code waits for the next one: it is not run after its run has failed.
    assert "broke" in code.run("ws.request.close()", ghost, "bash").error["evalue"]
    server.plan["sync"] = lambda c, parent: c.send("status", {"execution_state": "restarting"}, {})
    assert "restarted" in code.run("done(); 'ghost'", ghost, "bash").error["evalue"]
    server.plan = {}
    assert code.run("done()", ghost, "bash").error is None
    assert "done(); 'ghost'" not in server.codes
    states = {"k1": (404,), "k2": (200, {"execution_state": "idle"}), "k3": (200, {"execution_state": "idle"})}
    server.plan = {"interrupt": lambda c: time.sleep(99), "restart": lambda c: time.sleep(99),
                   "kernel": lambda c: c.answer(*states.get(c.path.split("/")[3], (200, {"execution_state": "busy"})))}
    listen = "[ws.receive() for _ in range(99)]"
    new = "while True:\n    m = ws.receive()['header']\n    if m['msg_type'] == 'kernel_info_request': ws.do_sync(m)"
    busy = "end, asked = time.monotonic() + 6, []\nwhile time.monotonic() < end:\n    ws.request.settimeout(.5)\n" \
           "    try: asked.append(ws.receive()['header'])\n    except TimeoutError: pass\nws.request.settimeout(None); done(); [ws.do_sync(m) for m in asked]"
    runs = [Run(code, c, text) for c, text in ((removed, listen), (restarted, new), (asleep, "time.sleep(99)"), (stubborn, listen))]
    at_work = Run(code, misjudged, busy)
    assert code.interrupt(stubborn).status_code == 200
    told = [run.end().error["evalue"] for run in runs]
    assert at_work.end().error is None
    server.stop()
    wait_for(lambda: code.execd.fds() <= before + 1, "descriptors to be closed", WAIT)
    assert all(a in b for a, b in zip(("is gone", "was restarted", "hung", "did not stop"), told)), told
