"""Requests that two parsers could read differently.

Each case carries a second request where a lenient reader would find one. The server must give one
answer with the right status, close the connection, and never see the second request. In front of an
upstream, nothing of it may arrive there.
"""

import os
import socket
import threading
import time

import pytest

from conftest import Demo, read_all, statuses

EVIL = b"GET /hello HTTP/1.1\r\nHost: evil\r\n\r\n"


def post(headers, body=b"", path=b"/sink", host=b"Host: a\r\n"):
    return b"POST " + path + b" HTTP/1.1\r\n" + host + headers + b"\r\n" + body


def chunked(body):
    return post(b"Transfer-Encoding: chunked\r\n", body)


def get(headers=b"", line=b"GET /hello HTTP/1.1\r\n", host=b"Host: a\r\n"):
    return line + host + headers + b"\r\n"


TE = b"Transfer-Encoding: chunked\r\n"
ZERO = b"0\r\n\r\n"

HEADS = {
    # both framings
    "cl.te": (400, post(b"Content-Length: 6\r\n" + TE, ZERO + b"G")),
    "te.cl": (400, post(TE + b"Content-Length: 4\r\n", b"5c\r\n")),
    "cl.te with cl 0": (400, post(b"Content-Length: 0\r\n" + TE, ZERO)),
    "te.cl in 1.0": (400, b"POST /sink HTTP/1.0\r\nHost: a\r\n" + TE + b"\r\n" + ZERO),
    # the coding in disguise
    "te xchunked": (501, post(b"Transfer-Encoding: xchunked\r\n", ZERO)),
    "te identity": (501, post(b"Transfer-Encoding: identity\r\n", ZERO)),
    "te identity with cl": (501, post(b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n", ZERO)),
    "te gzip, chunked": (400, post(b"Transfer-Encoding: gzip, chunked\r\n", ZERO)),
    "te chunked, identity": (400, post(b"Transfer-Encoding: chunked, identity\r\n", ZERO)),
    "te chunked, chunked": (400, post(b"Transfer-Encoding: chunked, chunked\r\n", ZERO)),
    "te twice": (400, post(TE + TE, ZERO)),
    "te twice, other first": (501, post(b"Transfer-Encoding: x\r\n" + TE, ZERO)),
    "te twice, other last": (400, post(TE + b"Transfer-encoding: x\r\n", ZERO)),
    "te empty": (400, post(b"Transfer-Encoding:\r\n", ZERO)),
    "te comma": (400, post(b"Transfer-Encoding: ,chunked\r\n", ZERO)),
    "te quoted": (400, post(b'Transfer-Encoding: "chunked"\r\n', ZERO)),
    "te parameter": (400, post(b"Transfer-Encoding: chunked;x=y\r\n", ZERO)),
    "te tab": (400, post(b"Transfer-Encoding:\tchunked\r\n", ZERO)),
    "te tab after": (400, post(b"Transfer-Encoding: chunked\t\r\n", ZERO)),
    "te vertical tab": (400, post(b"Transfer-Encoding: \x0bchunked\r\n", ZERO)),
    "te form feed": (400, post(b"Transfer-Encoding: chunked\x0c\r\n", ZERO)),
    "te NUL": (400, post(b"Transfer-Encoding: chunked\0\r\n", ZERO)),
    "te high byte": (400, post(b"Transfer-Encoding: \xffchunked\r\n", ZERO)),
    "te space before colon": (400, post(b"Transfer-Encoding : chunked\r\n", ZERO)),
    "te tab before colon": (400, post(b"Transfer-Encoding\t: chunked\r\n", ZERO)),
    "te after bare LF": (400, post(b"X: y\nTransfer-Encoding: chunked\r\n", ZERO)),
    "te after bare CR": (400, post(b"X: y\rTransfer-Encoding: chunked\r\n", ZERO)),
    "te folded": (400, post(b"Transfer-Encoding:\r\n chunked\r\n", ZERO)),
    "te folded name": (400, post(b"X: y\r\n Transfer-Encoding: chunked\r\n", ZERO)),
    "te bare LF in name": (400, post(b"Transfer-Encoding\n: chunked\r\n", ZERO)),
    # the length in disguise
    "cl twice": (400, post(b"Content-Length: 0\r\nContent-Length: 44\r\n")),
    "cl twice, same": (400, post(b"Content-Length: 0\r\nContent-Length: 0\r\n")),
    "cl twice, other case": (400, post(b"Content-Length: 0\r\ncontent-length: 44\r\n")),
    "cl list": (400, post(b"Content-Length: 0, 44\r\n")),
    "cl list, same": (400, post(b"Content-Length: 0, 0\r\n")),
    "cl plus": (400, post(b"Content-Length: +0\r\n")),
    "cl minus": (400, post(b"Content-Length: -1\r\n")),
    "cl hex": (400, post(b"Content-Length: 0x0\r\n")),
    "cl underscore": (400, post(b"Content-Length: 1_0\r\n")),
    "cl empty": (400, post(b"Content-Length:\r\n")),
    "cl decimal": (400, post(b"Content-Length: 0.0\r\n")),
    "cl exponent": (400, post(b"Content-Length: 1e1\r\n")),
    "cl inner space": (400, post(b"Content-Length: 4 4\r\n")),
    "cl tab": (400, post(b"Content-Length:\t0\r\n")),
    "cl quoted": (400, post(b'Content-Length: "0"\r\n')),
    "cl int64 + 1": (400, post(b"Content-Length: 9223372036854775808\r\n")),
    "cl uint64 + 1": (400, post(b"Content-Length: 18446744073709551616\r\n")),
    "cl very long": (400, post(b"Content-Length: " + b"0" * 100 + b"\r\n")),
    "cl NUL": (400, post(b"Content-Length: 0\0\r\n")),
    "cl space before colon": (400, post(b"Content-Length : 44\r\n")),
    "cl arabic digits": (400, post("Content-Length: ٤\r\n".encode())),
    # lines
    "bare LF everywhere": (400, b"GET /hello HTTP/1.1\nHost: a\n\n"),
    "bare LF after request line": (400, b"GET /hello HTTP/1.1\nHost: a\r\n\r\n"),
    "bare LF after header": (400, b"GET /hello HTTP/1.1\r\nHost: a\n\r\n"),
    "bare LF at the end": (400, b"GET /hello HTTP/1.1\r\nHost: a\r\n\n"),
    "bare CR after request line": (400, b"GET /hello HTTP/1.1\rHost: a\r\n\r\n"),
    "bare CR in value": (400, get(b"X: a\rb\r\n")),
    "CR CR LF": (400, get(b"X: a\r\r\n")),
    "LF CR": (400, get(b"X: a\n\r")),
    "obs-fold": (400, get(b"X: a\r\n b\r\n")),
    "obs-fold with tab": (400, get(b"X: a\r\n\tb\r\n")),
    "obs-fold of the first line": (400, b"GET /hello HTTP/1.1\r\n Host: a\r\n\r\n"),
    "two empty lines first": (400, b"\r\n\r\n" + get()),
    "LF first": (400, b"\n" + get()),
    "space first": (400, b" " + get()),
    "space before colon": (400, get(b"X : y\r\n")),
    "no colon": (400, get(b"X y\r\n")),
    "empty name": (400, get(b": y\r\n")),
    "name with separator": (400, get(b"X(y): z\r\n")),
    "name with high byte": (400, get(b"X\xe4: z\r\n")),
    # request line
    "two spaces": (400, get(line=b"GET  /hello HTTP/1.1\r\n")),
    "tab": (400, get(line=b"GET\t/hello HTTP/1.1\r\n")),
    "trailing space": (400, get(line=b"GET /hello HTTP/1.1 \r\n")),
    "two targets": (400, get(line=b"GET /hello /sink HTTP/1.1\r\n")),
    "HTTP/0.9": (400, b"GET /hello\r\n"),
    "HTTP/1.2": (505, get(line=b"GET /hello HTTP/1.2\r\n")),
    "HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "http/1.1": (400, get(line=b"GET /hello http/1.1\r\n")),
    "HTTP/01.1": (400, get(line=b"GET /hello HTTP/01.1\r\n")),
    "HTTP/1.1.1": (400, get(line=b"GET /hello HTTP/1.1.1\r\n")),
    "long method": (501, get(line=b"A" * 100 + b" /hello HTTP/1.1\r\n")),
    # target and authority
    "absolute form of another host": (400, get(line=b"GET http://evil/hello HTTP/1.1\r\n")),
    "absolute form with another port": (400, get(line=b"GET http://a:81/hello HTTP/1.1\r\n")),
    "absolute form with userinfo": (400, get(line=b"GET http://a@evil/hello HTTP/1.1\r\n")),
    "absolute form without host": (400, get(line=b"GET http:///hello HTTP/1.1\r\n")),
    "absolute form, other scheme": (400, get(line=b"GET ftp://a/hello HTTP/1.1\r\n")),
    "absolute form, no Host": (400, get(line=b"GET http://a/hello HTTP/1.1\r\n", host=b"")),
    "scheme only": (400, get(line=b"GET http: HTTP/1.1\r\n")),
    "authority form": (400, get(line=b"GET a:80 HTTP/1.1\r\n")),
    "asterisk form": (400, get(line=b"GET * HTTP/1.1\r\n")),
    "relative": (400, get(line=b"GET hello HTTP/1.1\r\n")),
    "backslash": (400, get(line=b"GET \\hello HTTP/1.1\r\n")),
    "connect to a path": (400, get(line=b"CONNECT /hello HTTP/1.1\r\n")),
    "connect with body": (400, b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nContent-Length: 44\r\n\r\n"),
    "fragment": (400, get(line=b"GET /hello#x HTTP/1.1\r\n")),
    "no Host": (400, get(host=b"")),
    "empty Host": (400, get(host=b"Host: \r\n")),
    "two Hosts": (400, get(b"Host: evil\r\n")),
    "two Hosts, same": (400, get(b"Host: a\r\n")),
    "Host with a path": (400, get(host=b"Host: a/b\r\n")),
    "Host with userinfo": (400, get(host=b"Host: a@evil\r\n")),
    "Host list": (400, get(host=b"Host: a, evil b\r\n")),
    "Host port junk": (400, get(host=b"Host: a:80.evil\r\n")),
    "Host with a space before": (400, get(host=b"Host : a\r\n")),
    # control bytes
    "NUL in method": (400, get(line=b"GE\0T /hello HTTP/1.1\r\n")),
    "NUL in target": (400, get(line=b"GET /hel\0lo HTTP/1.1\r\n")),
    "NUL in name": (400, get(b"X\0Y: z\r\n")),
    "NUL in value": (400, get(b"X: y\0z\r\n")),
    "DEL in value": (400, get(b"X: y\x7f\r\n")),
    "ESC in value": (400, get(b"X: \x1b[2J\r\n")),
    "backspace in target": (400, get(line=b"GET /a\x08b HTTP/1.1\r\n")),
    "high byte in target": (400, get(line=b"GET /\xc3\xa4 HTTP/1.1\r\n")),
    # size
    "200 headers": (431, get(b"X: y\r\n" * 200)),
    "large header": (431, get(b"X: " + b"y" * 70000 + b"\r\n")),
    "large name": (431, get(b"X" * 70000 + b": y\r\n")),
    "many large headers": (431, get((b"X: " + b"y" * 4000 + b"\r\n") * 20)),
    "long target": (414, get(line=b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\n")),
}

BODIES = {
    "size 0x5": b"0x5\r\nhello\r\n0\r\n\r\n",
    "size +5": b"+5\r\nhello\r\n0\r\n\r\n",
    "size -5": b"-5\r\nhello\r\n0\r\n\r\n",
    "size with space before": b" 5\r\nhello\r\n0\r\n\r\n",
    "size with space after": b"5 \r\nhello\r\n0\r\n\r\n",
    "size with tab after": b"5\t\r\nhello\r\n0\r\n\r\n",
    "size with underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "size empty": b"\r\nhello\r\n0\r\n\r\n",
    "size of 17 digits": b"00000000000000005\r\nhello\r\n0\r\n\r\n",
    "size over int64": b"8000000000000005\r\nhello\r\n0\r\n\r\n",
    "size wraps 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "size wraps 32 bits": b"1_00000005\r\nhello\r\n0\r\n\r\n",
    "bare LF after size": b"5\nhello\r\n0\r\n\r\n",
    "bare CR after size": b"5\rhello\r\n0\r\n\r\n",
    "bare LF after data": b"5\r\nhello\n0\r\n\r\n",
    "nothing after data": b"5\r\nhello0\r\n\r\n",
    "data too long": b"5\r\nhello!\r\n0\r\n\r\n",
    "bare LF after last size": b"0\n\r\n",
    "bare LF at the end": b"0\r\n\n",
    "bare CR at the end": b"0\r\n\rX",
    "extension with bare LF": b"5;a\nhello\r\n0\r\n\r\n",
    "extension with bare CR": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "extension with NUL": b"5;a=\0\r\nhello\r\n0\r\n\r\n",
    "extension too long": b"5;" + b"a" * 300 + b"\r\nhello\r\n0\r\n\r\n",
    "trailer folded": b"0\r\nA: b\r\n c\r\n\r\n",
    "trailer with bare LF": b"0\r\nA: b\nC: d\r\n\r\n",
    "trailer with space before colon": b"0\r\nA : b\r\n\r\n",
    "trailer without colon": b"0\r\nGET /hello HTTP/1.1\r\n\r\n",
    "trailer with NUL": b"0\r\nA: \0\r\n\r\n",
    "trailer too long": b"0\r\nA: " + b"b" * 9000 + b"\r\n\r\n",
    "trailers too many": b"0\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
}


def expect_one(demo, status, data):
    out = demo.talk(data + EVIL)
    assert statuses(out) == [status], out[:500]
    assert b"\r\nConnection: close\r\n" in out
    assert b"Hello" not in out


@pytest.mark.parametrize("name", HEADS)
def test_head(demo, name):
    status, data = HEADS[name]
    expect_one(demo, status, data)


@pytest.mark.parametrize("name", BODIES)
def test_chunked_body(demo, name):
    expect_one(demo, 400, chunked(BODIES[name]))


@pytest.mark.parametrize("name", BODIES)
def test_chunked_body_that_nobody_reads(demo, name):
    """The answer is out before the body is looked at: then the connection must just end."""
    out = demo.talk(post(TE, BODIES[name], path=b"/nowhere") + EVIL)
    assert statuses(out) == [404]
    assert b"Hello" not in out


# ---- in front of an upstream ----

class Recorder:
    """Accepts, keeps every byte, and answers only a request that asks for /check."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen = bytearray()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        with s:
            while True:
                try:
                    piece = s.recv(65536)
                except OSError:
                    return
                if not piece:
                    return
                self.seen.extend(piece)
                if b"/check" in piece:
                    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture(scope="module")
def upstream():
    r = Recorder()
    yield r
    r.listener.close()


@pytest.fixture(scope="module")
def proxy(upstream):
    d = Demo("--upstream", f"127.0.0.1:{upstream.port}")
    yield d
    d.stop()


def proxied(data):
    return data.replace(b" /sink ", b" /proxy/sink ").replace(b" /hello ", b" /proxy/hello ")


def expect_nothing_through(proxy, upstream, status, data, max_requests):
    upstream.seen.clear()
    out = proxy.talk(proxied(data + EVIL))
    assert statuses(out) == [status], out[:500]
    # What was forwarded before this one has arrived when it is answered.
    assert statuses(proxy.talk(get(b"Connection: close\r\n", line=b"GET /proxy/check HTTP/1.1\r\n"))) == [200]
    assert b"evil" not in upstream.seen
    assert upstream.seen.count(b" HTTP/1.1\r\n") - upstream.seen.count(b"GET /check ") <= max_requests, upstream.seen


@pytest.mark.parametrize("name", HEADS)
def test_head_through_proxy(proxy, upstream, name):
    status, data = HEADS[name]
    expect_nothing_through(proxy, upstream, status, data, 0)


@pytest.mark.parametrize("name", BODIES)
def test_chunked_body_through_proxy(proxy, upstream, name):
    """The head may have been forwarded before the body turned out to be wrong; nothing else may."""
    expect_nothing_through(proxy, upstream, 400, chunked(BODIES[name]), 1)


# Framed correctly: the second request is the body, or comes after it, but never out of it.
@pytest.mark.parametrize("path", [b"/sink", b"/work", b"/nowhere", b"/hello"])
@pytest.mark.parametrize("method", [b"GET", b"POST", b"HEAD", b"OPTIONS", b"DELETE"])
def test_body_is_not_a_request(demo, method, path):
    """CL.0: a body where the route expects none is still a body."""
    length = b"Content-Length: %d\r\n" % len(EVIL)
    once = method + b" " + path + b" HTTP/1.1\r\nHost: a\r\n" + length
    plain = b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    out = demo.talk(once + b"\r\n" + EVIL + plain)
    assert len(statuses(out)) == 2, out
    assert out.endswith(b"\r\n\r\n\0\0\0")
    te = method + b" " + path + b" HTTP/1.1\r\nHost: a\r\n" + TE
    body = b"%x\r\n" % len(EVIL) + EVIL + b"\r\n" + ZERO
    out = demo.talk(te + b"\r\n" + body + plain)
    assert len(statuses(out)) == 2, out
    assert out.endswith(b"\r\n\r\n\0\0\0")


def test_large_body_that_nobody_reads(demo):
    """Too much to drop: the connection ends, and nothing of it is taken for a request."""
    body = EVIL * 20000
    out = demo.talk(post(b"Content-Length: %d\r\n" % len(body), body, path=b"/nowhere") + EVIL)
    assert statuses(out) == [404]
    assert b"\r\nConnection: close\r\n" in out


def test_expect_and_no_body(demo):
    """Without the invitation nobody knows whether the next bytes are the body."""
    head = post(b"Content-Length: 5\r\nExpect: 100-continue\r\n", path=b"/nowhere")
    with demo.connect() as s:
        s.sendall(head)
        out = s.recv(65536)
        assert statuses(out) == [404]
        s.sendall(EVIL)
        out += read_all(s)
    assert statuses(out) == [404]


def test_pipeline_flood(demo):
    """Many requests in one go are all answered, in order."""
    n = 3000
    data = b"".join(b"GET /bytes/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (i % 10) for i in range(n))
    data += b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with demo.connect() as s:
        s.settimeout(60)
        sender = threading.Thread(target=s.sendall, args=(data,))
        sender.start()
        out = read_all(s)
        sender.join()
    assert statuses(out) == [200] * (n + 1)
    lengths = [int(x.split(b"\r\n")[0]) for x in out.split(b"Content-Length: ")[1:]]
    assert lengths == [i % 10 for i in range(n)] + [13]


def test_pipeline_flood_from_a_client_that_does_not_read(demo):
    """Answers nobody reads stop the reading of requests: the sender blocks, memory does not grow."""
    with demo.connect() as s:
        s.settimeout(2)
        sent = 0
        piece = b"GET /bytes/1000 HTTP/1.1\r\nHost: a\r\n\r\n" * 1000
        try:
            while sent < 256 << 20:
                sent += s.send(piece)
        except TimeoutError:
            pass
        assert sent < 64 << 20
        with open(f"/proc/{demo.proc.pid}/statm") as f:
            resident = int(f.read().split()[1]) * 4096
        assert resident < 200 << 20
    assert statuses(demo.talk(get(b"Connection: close\r\n"))) == [200]


@pytest.fixture(scope="module")
def hasty():
    d = Demo("--head-ms", "400", "--body-ms", "400", "--idle-ms", "400")
    yield d
    d.stop()


def drip(s, data, pause=0.05):
    """One byte after the other until the other side has had enough."""
    for i in range(len(data)):
        try:
            s.sendall(data[i:i + 1])
        except (BrokenPipeError, ConnectionResetError):
            return
        s.settimeout(pause)
        try:
            if s.recv(1, 2) is not None:  # MSG_PEEK
                return
        except (TimeoutError, BlockingIOError):
            pass
        except ConnectionResetError:
            return


def test_slow_head(hasty):
    with hasty.connect() as s:
        drip(s, get(b"X: " + b"y" * 1000 + b"\r\n"))
        s.settimeout(30)
        assert statuses(read_all(s)) == [408]


def test_slow_body(hasty):
    with hasty.connect() as s:
        s.sendall(post(b"Content-Length: 100\r\n", b"abc"))
        assert statuses(read_all(s)) == [408]


def test_slow_chunk(hasty):
    with hasty.connect() as s:
        s.sendall(chunked(b"5\r\nhel"))
        assert statuses(read_all(s)) == [408]


def test_silent_client(hasty):
    start = time.monotonic()
    with hasty.connect() as s:
        assert read_all(s) == b""
    assert time.monotonic() - start >= 0.3


def sockets_of(pid):
    links = [os.readlink(f"/proc/{pid}/fd/{f}") for f in os.listdir(f"/proc/{pid}/fd")]
    return [x for x in links if x.startswith("socket:")]


def test_all_of_it_left_no_trace(demo):
    """Still alive, and holding nothing but the socket it listens on."""
    assert demo.proc.poll() is None
    deadline = time.monotonic() + 30
    while len(sockets_of(demo.proc.pid)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(sockets_of(demo.proc.pid)) == 1
