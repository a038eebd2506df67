"""How output becomes events: lines, bytes, speed of delivery, slow and vanishing clients."""

import json
import os
import time

import pytest
from conftest import wait_for
from execd_client import Events, Raw, check_stream, run


def printed(execd, data, fd=1):
    """Runs a program that writes exactly `data`."""
    text = "".join(f"\\{b:03o}" for b in data)
    ev = run(execd, f"printf '{text}'" + (">&2" if fd == 2 else ""))
    return ev.stderr if fd == 2 else ev.stdout


@pytest.mark.parametrize("data,lines", [
    (b"a\n\nb\n\n\nc\n", ["a", "\n", "b", "\n", "\n", "c"]),
    (b"x", ["x"]), (b"", []), (b"\n", ["\n"]), (b"\r", ["\n"]), (b"\r\n", ["\n"]),
    (b"a\r\nb\r\n", ["a", "b"]), (b"10%\r20%\r", ["10%", "20%"]), (b"a\r\rb", ["a", "\n", "b"]),
    (b"a\n\rb", ["a", "\n", "b"]), (b"a\r\n\r\nb", ["a", "\n", "b"]), (b"a\nb", ["a", "b"]),
    (b"tail\r", ["tail"]),
    (b'"\\/\t\b\f', ['"\\/\t\b\f']), (b"\x00\x01\x1b[0m\x7f", ["\x00\x01\x1b[0m\x7f"]),
    ("å€😀".encode(), ["å€😀"]),
    (b"\xff\xfeok\xc3", ["\ufffd\ufffdok\ufffd"]),
    (b"\xe2\x82", ["\ufffd\ufffd"]), (b"\xed\xa0\x80", ["\ufffd\ufffd\ufffd"]),
    ("a\u2028b\u2029c\x85d\x0b\x0c\x1c\x1d\x1ee".encode(), ["a\u2028b\u2029c\x85d\x0b\x0c\x1c\x1d\x1ee"]),
])
@pytest.mark.parametrize("fd", [1, 2])
def test_lines(execd, data, lines, fd):
    assert printed(execd, data, fd) == lines


def test_nothing_that_clients_take_for_a_line_break(execd):
    """httpx splits lines on all of these; a raw one would cut the event in two."""
    ev = run(execd, r"printf 'a\342\200\250b\342\200\251c\302\205d\013\014\034\035\036e\n'")
    frame = ev.raw.split(b"\n\n")[2].decode()
    assert frame.splitlines() == [frame]
    assert ev.stdout == ["a\u2028b\u2029c\x85d\x0b\x0c\x1c\x1d\x1ee"]


def test_crlf_cut_between_two_writes(execd):
    assert run(execd, r"printf 'a\r'; sleep 0.1; printf '\nb\r'; sleep 0.1; printf 'c\n'").stdout == [
        "a", "b", "c"]


def test_character_cut_between_two_writes(execd):
    assert run(execd, r"printf '\342\202'; sleep 0.1; printf '\254\n'").stdout == ["€"]


def test_streams_keep_their_order(execd):
    ev = run(execd, "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done")
    assert ev.stdout == [f"o{i}" for i in range(1, 6)]
    assert ev.stderr == [f"e{i}" for i in range(1, 6)]


def test_events_come_when_they_happen(execd, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    raw = Raw(execd, "POST", "/command", {"command": f"echo one; cat {fifo} >/dev/null; echo two"})
    raw.head()
    assert b'"two"' not in raw.until(b'"one"')
    with open(fifo, "w"):
        pass
    raw.until(b'"execution_complete"')
    raw.close()


def test_partial_lines_wait_for_their_end(execd, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    raw = Raw(execd, "POST", "/command", {"command": f"printf abc; echo E >&2; cat {fifo}; echo def"})
    raw.head()
    assert b"abc" not in raw.until(b'"E"')
    with open(fifo, "w"):
        pass
    assert b'"text":"abcdef"' in raw.until(b"execution_complete")
    raw.close()


def test_long_lines_are_cut_between_characters(execd):
    """Clients take 4 MiB a line; nothing may be lost or broken in the cut."""
    n = 3000000
    ev = run(execd, f"head -c {n} /dev/zero | tr '\\0' a; printf '\\n'; "
                    "for i in 1 2 3; do head -c 300000 /dev/zero | sed 's/\\x0/€/g'; done; echo; echo end")
    assert all(len(e) < 4 << 20 for e in ev.raw.split(b"\n\n"))
    assert "".join(ev.stdout) == "a" * n + "€" * 900000 + "end"
    assert ev.stdout[-1] == "end" and "\ufffd" not in "".join(ev.stdout)


def test_long_lines_of_control_characters(execd):
    ev = run(execd, "head -c 2000000 /dev/zero")
    assert all(len(e) < 4 << 20 for e in ev.raw.split(b"\n\n"))
    assert "".join(ev.stdout) == "\0" * 2000000


def test_many_lines(execd):
    ev = run(execd, "seq 1 200000")
    assert ev.stdout == [str(i) for i in range(1, 200001)]


def test_many_empty_lines(execd):
    """The worst expansion: one byte in, one event out."""
    ev = run(execd, "yes '' | head -n 100000")
    assert ev.stdout == ["\n"] * 100000


def test_pings_go_on(execd):
    raw = Raw(execd, "POST", "/command", {"command": "sleep 3.5"})
    raw.head()
    ev = Events(raw.body())
    assert [e["type"] for e in ev.all] == ["init", "ping", "ping", "execution_complete"]
    raw.close()


def test_slow_client_pauses_the_process(launch):
    execd = launch()
    raw = Raw(execd, "POST", "/command", {"command": "seq 1 400000; echo done >&2"}, rcvbuf=4096)
    raw.head()
    cid = json.loads(raw.until(b"\n\n").split(b"\n\n")[0])["text"]
    time.sleep(0.5)
    assert execd.get(f"/command/status/{cid}").json()["running"] is True
    if not execd.sanitized():
        assert execd.rss_kb() < 6000, "output is kept in the pipe, not in memory"
    lines = [json.loads(f)["text"] for f in raw.body()[:-2].split(b"\n\n") if b'"stdout"' in f]
    assert lines[-1] == "400000" and len(lines) == 400000 - int(lines[0]) + 1
    raw.close()


def test_client_that_leaves_does_not_stop_the_command(execd, tmp_path):
    mark = tmp_path / "mark"
    raw = Raw(execd, "POST", "/command",
              {"command": f"echo a; sleep 0.3; yes | head -n 200000; echo x > {mark}; exit 5"})
    raw.head()
    cid = json.loads(raw.until(b'"a"').split(b"\n\n")[0])["text"]
    raw.close()
    wait_for(mark.exists, "the command's end")
    st = wait_for(lambda: (lambda s: s if not s["running"] else None)(
        execd.get(f"/command/status/{cid}").json()))
    assert st["exit_code"] == 5


def test_client_that_leaves_while_blocked(execd, tmp_path):
    mark = tmp_path / "mark"
    raw = Raw(execd, "POST", "/command", {"command": f"seq 1 400000; echo x > {mark}"}, rcvbuf=4096)
    raw.head()
    time.sleep(0.3)
    assert not mark.exists()
    raw.reset()
    wait_for(mark.exists, "the command's end")


def test_survivors_do_not_hold_the_stream(execd, tmp_path):
    """The command is over when its shell is; what it left behind lives on."""
    out = tmp_path / "out"
    start = time.monotonic()
    ev = run(execd, f"(sleep 0.5; echo late; echo late >&2; echo ok > {out}) & echo now")
    assert ev.stdout == ["now"] and ev.exit_code == 0
    assert time.monotonic() - start < 30
    wait_for(lambda: out.exists() and out.read_text() == "ok\n", "the survivor's end")


def test_survivor_that_floods(execd):
    ev = run(execd, "yes flood & echo $!; exit 0")
    pid = int(ev.stdout[-1]) if ev.stdout[-1].isdigit() else int([s for s in ev.stdout if s.isdigit()][0])
    try:
        assert ev.exit_code == 0
        assert execd.get("/ping").status_code == 200
    finally:
        os.kill(pid, 9)


def test_all_output_before_the_end(execd):
    for _ in range(20):
        ev = run(execd, "seq 1 20000; exit 9")
        assert len(ev.stdout) == 20000 and ev.stdout[-1] == "20000" and ev.exit_code == 9


def test_reopening_the_streams_by_name(execd):
    ev = run(execd, "echo a; echo b > /dev/stdout; echo c; echo e > /dev/stderr; echo f >&2")
    assert ev.stdout == ["a", "b", "c"] and ev.stderr == ["e", "f"]


def test_http_1_0_client(execd):
    import socket
    with socket.create_connection(("127.0.0.1", execd.port), 60) as s:
        body = b'{"command":"echo x"}'
        s.sendall(b"POST /command HTTP/1.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        data = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    assert b"chunked" not in head
    assert check_stream(Events(body)).stdout == ["x"]
