"""Runs inside the sandbox of the egress tests: `egressclient.py EXPRESSION` prints its value as JSON."""

import errno
import json
import os
import random
import socket
import struct
import sys
import time

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64,
         "HTTPS": 65, "ANY": 255}
RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


def family(ip):
    return socket.AF_INET6 if ":" in ip else socket.AF_INET


def wire_name(name):
    return b"".join(bytes([len(p)]) + p.encode("latin-1") for p in name.rstrip(".").split(".") if p) + b"\0"


def make_query(name, rtype="A", cls=1, edns=None, flags=0x0100, qid=None):
    qid = random.randrange(1 << 16) if qid is None else qid
    msg = struct.pack(">HHHHHH", qid, flags, 1, 0, 0, 1 if edns else 0) + wire_name(name)
    msg += struct.pack(">HH", TYPES.get(rtype, rtype), cls)
    if edns:
        msg += b"\0" + struct.pack(">HHIH", 41, edns, 0, 0)
    return qid, msg


def read_name(msg, at):
    parts, end = [], None
    while True:
        n = msg[at]
        if n & 0xC0 == 0xC0:
            end = end or at + 2
            at = struct.unpack_from(">H", msg, at)[0] & 0x3FFF
            continue
        at += 1
        if not n:
            return ".".join(parts), end or at
        parts.append(msg[at:at + n].decode("latin-1"))
        at += n


def read_answer(msg):
    qid, flags, qd, an, ns, ar = struct.unpack_from(">HHHHHH", msg)
    at, out = 12, {"id": qid, "flags": flags, "rcode": RCODES.get(flags & 15, flags & 15), "tc": bool(flags & 0x200),
                   "counts": [qd, an, ns, ar], "answers": [], "ttl": None, "size": len(msg)}
    for _ in range(qd):
        _, at = read_name(msg, at)
        at += 4
    for _ in range(an):
        name, at = read_name(msg, at)
        rtype, cls, ttl, n = struct.unpack_from(">HHIH", msg, at)
        at += 10
        data = msg[at:at + n]
        if rtype == 1:
            out["answers"].append(socket.inet_ntop(socket.AF_INET, data))
        elif rtype == 28:
            out["answers"].append(socket.inet_ntop(socket.AF_INET6, data))
        elif rtype == 5:
            out["answers"].append(read_name(msg, at)[0])
        else:
            out["answers"].append(data.hex())
        out["ttl"] = ttl if out["ttl"] is None else min(out["ttl"], ttl)
        at += n
    return out


def exchange(msg, server, tcp=False, timeout=20, port=53):
    """The raw answer, or None."""
    s = socket.socket(family(server), socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(timeout)
    try:
        s.connect((server, port))
        s.sendall(struct.pack(">H", len(msg)) + msg if tcp else msg)
        if not tcp:
            return s.recv(65536)
        data = b""
        while len(data) < 2 or len(data) < 2 + struct.unpack(">H", data[:2])[0]:
            piece = s.recv(65536)
            if not piece:
                return None
            data += piece
        return data[2:]
    except OSError:
        return None
    finally:
        s.close()


def lookup(name, rtype="A", server="203.0.113.1", tcp=False, timeout=20, **kw):
    qid, msg = make_query(name, rtype, **kw)
    answer = exchange(msg, server, tcp, timeout)
    if answer is None:
        return {"rcode": "TIMEOUT", "answers": []}
    out = read_answer(answer)
    assert out["id"] == qid
    return out


def connect(ip, port=80, proto="tcp", timeout=8):
    """"ok" when something came back; else why not."""
    s = socket.socket(family(ip), socket.SOCK_STREAM if proto == "tcp" else socket.SOCK_DGRAM)
    s.settimeout(timeout)
    try:
        s.connect((ip, port))
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return "ok" if s.recv(1000) else "closed"
    except socket.timeout:
        return "timeout"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
    finally:
        s.close()


def ping(ip, text, spoil=False):
    """One echo request on a raw socket; spoil: with a checksum that is wrong."""
    v6 = ":" in ip
    s = socket.socket(family(ip), socket.SOCK_RAW, socket.IPPROTO_ICMPV6 if v6 else socket.IPPROTO_ICMP)
    msg = bytearray(struct.pack(">BBHHH", 128 if v6 else 8, 0, 0, 7, 1) + text.encode() + b"\0" * (len(text) % 2))
    if not v6:  # the kernel does it for IPv6
        n = sum(struct.unpack(f">{len(msg) // 2}H", msg))
        n = (n >> 16) + (n & 0xFFFF)
        struct.pack_into(">H", msg, 2, ~(n + (n >> 16)) & 0xFFFF ^ int(spoil))
    return s.sendto(bytes(msg), (ip, 0))


def hold(ip, note, port=9999):
    """Keeps one connection busy until it breaks; the file says how often something came back, and why it ended."""
    n = 0
    try:
        s = socket.create_connection((ip, port), 20)
        s.settimeout(20)
        while True:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            n += 1
            with open(note + ".new", "w") as f:
                f.write(f"{n}")
            os.rename(note + ".new", note)
            time.sleep(0.02)
    except (OSError, AssertionError) as e:
        with open(note + ".end", "w") as f:
            f.write(repr(e))
    return n


def hammer(stop, tries):
    """Each expression in a thread of its own, over and over until the file `stop` is there: what it gave, and how often."""
    import threading
    counts = [{} for _ in tries]

    def one(expression, count):
        while not os.path.exists(stop):
            try:
                got = str(eval(expression))
            except OSError as e:
                got = repr(e)
            count[got] = count.get(got, 0) + 1
            time.sleep(0.005)
    threads = [threading.Thread(target=one, args=a) for a in zip(tries, counts)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return counts


if __name__ == "__main__":
    print(json.dumps(eval(sys.argv[1])))  # noqa: S307: the tests' own expressions
