"""A sandbox reaches the outside, and nothing else: not the host, not its neighbours, not metadata services."""

import os
import socket
import subprocess
import threading

import pytest

# All at once: what goes nowhere is noticed only after a while.
CONNECT = """
import concurrent.futures, socket

def attempt(target):
    with socket.socket() as s:
        s.settimeout(4)
        try:
            s.connect(target)
            return 'CONNECTED'
        except OSError as e:
            return type(e).__name__

targets = %r
with concurrent.futures.ThreadPoolExecutor(len(targets)) as pool:
    for target, outcome in zip(targets, pool.map(attempt, targets)):
        print(*target, outcome)
"""


class Listener:
    """Accepts and counts, on every address of the host."""

    def __init__(self, host="0.0.0.0", family=socket.AF_INET):
        self.sock = socket.create_server((host, 0), family=family)
        self.port = self.sock.getsockname()[1]
        self.peers = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                c, peer = self.sock.accept()
            except OSError:
                return
            self.peers.append(peer[0])
            c.close()

    def close(self):
        self.sock.close()


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


def host_addresses():
    out = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True).stdout
    return [line.split()[3].split("/")[0] for line in out.splitlines()]


def test_the_host_is_unreachable(sandbox, listener):
    targets = [(a, listener.port) for a in host_addresses()] + [("0.0.0.0", listener.port)]
    assert (sandbox.box.gateway, listener.port) in targets
    r = sandbox.py(CONNECT % targets)
    assert "CONNECTED" not in r.out, r
    assert len(r.out.splitlines()) == len(targets)
    assert listener.peers == []


def test_the_hosts_loopback_is_not_the_sandboxs(sandbox):
    """A listener on the host's 127.0.0.1, as the server has one."""
    mine = Listener("127.0.0.1")
    r = sandbox.py(CONNECT % [("127.0.0.1", mine.port), ("localhost", mine.port), ("127.0.0.2", mine.port)])
    mine.close()
    assert "CONNECTED" not in r.out, r
    assert mine.peers == []


def test_abstract_unix_sockets_of_the_host(sandbox):
    name = "\0osb-escape-test-%d" % os.getpid()
    s = socket.socket(socket.AF_UNIX)
    s.bind(name)
    s.listen(1)
    r = sandbox.py(f"""
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect({name!r})
    print('CONNECTED')
except OSError as e:
    print('no')
""")
    s.close()
    assert r.out == "no", r


def test_neighbours_are_unreachable(box, sandbox):
    box.create("neighbour", entrypoint=["python3", "-m", "http.server", "8000", "--bind", "0.0.0.0"])
    try:
        ip = box.record("neighbour")["ip"]
        address = socket.inet_ntoa(ip.to_bytes(4, "big"))
        for _ in range(100):
            if "200 OK" in box.tool("get", "neighbour", 8000, "/", check=False).out:
                break
        r = sandbox.py(CONNECT % [(address, 8000), (address, 44772)])
        assert "CONNECTED" not in r.out, r
        # And it is up: the server's way in works.
        assert "200 OK" in box.tool("get", "neighbour", 8000, "/").out
    finally:
        box.tool("remove", "neighbour")


@pytest.mark.parametrize("address", ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16"])
def test_metadata_is_unreachable(sandbox, address):
    """Also where a route to it exists: somebody on the host's side answers."""
    subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
    try:
        server = Listener(address)
        r = sandbox.py(CONNECT % [(address, server.port), (address, 80)])
        assert "CONNECTED" not in r.out, r
        assert server.peers == []
        server.close()
    finally:
        subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], check=True)


@pytest.fixture(scope="module")
def outside(box):
    """Another machine behind the host: a network namespace with a server in it."""
    tag = box.name[2:]
    ns, here, there = f"ot{tag}x", f"oh{tag}", f"oe{tag}"
    third = int(tag[:2], 16)
    net = f"198.18.{third}"
    run = lambda *c: subprocess.run(c, check=True, capture_output=True)  # noqa: E731
    run("ip", "netns", "add", ns)
    run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", ns)
    run("ip", "addr", "add", f"{net}.1/24", "dev", here)
    run("ip", "link", "set", here, "up")
    run("ip", "-n", ns, "addr", "add", f"{net}.2/24", "dev", there)
    run("ip", "-n", ns, "addr", "add", "169.254.169.254/32", "dev", there)
    run("ip", "-n", ns, "link", "set", there, "up")
    run("ip", "route", "add", "169.254.169.254/32", "via", f"{net}.2")
    server = subprocess.Popen(["ip", "netns", "exec", ns, "python3", "-c", """
import socket
s = socket.create_server(('0.0.0.0', 8080), reuse_port=True)
print('up', flush=True)
while True:
    c, peer = s.accept()
    c.sendall(peer[0].encode())
    c.close()
"""], stdout=subprocess.PIPE)
    server.stdout.readline()
    yield f"{net}.2", f"{net}.1", ns
    server.kill()
    server.wait()
    subprocess.run(["ip", "route", "del", "169.254.169.254/32"], capture_output=True)
    run("ip", "link", "del", here)
    run("ip", "netns", "del", ns)


def test_the_outside_is_reachable(sandbox, outside):
    address, host_side, _ns = outside
    r = sandbox.py(f"""
import socket
s = socket.create_connection(('{address}', 8080), timeout=10)
print(s.recv(100).decode())
""")
    assert r.out == host_side, r  # behind the host's address


def test_metadata_beyond_the_host(sandbox, outside):
    """The usual case in a cloud: the address is not the host's, it is routed."""
    r = sandbox.py(CONNECT % [("169.254.169.254", 8080)])
    assert "CONNECTED" not in r.out, r


def test_the_outside_cannot_come_in(box, sandbox, outside):
    """With a route to the sandbox's address, a neighbour of the host still gets nowhere."""
    address, host_side, ns = outside
    ip = socket.inet_ntoa(box.record(sandbox.id)["ip"].to_bytes(4, "big"))
    subprocess.run(["ip", "-n", ns, "route", "replace", f"{ip}/32", "via", host_side], check=True)
    r = subprocess.run(["ip", "netns", "exec", ns, "python3", "-c", f"""
import socket
s = socket.socket()
s.settimeout(3)
try:
    s.connect(('{ip}', 44772))
    print('CONNECTED')
except OSError:
    print('no')
"""], capture_output=True, text=True)
    assert r.stdout.strip() == "no"


def test_network_settings_cannot_be_changed(sandbox):
    r = sandbox.py("""
import socket, struct, fcntl, os
def netlink(msg_type, flags, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.settimeout(5)
    s.send(struct.pack('=IHHII', 16 + len(body), msg_type, flags | 5, 1, 0) + body)
    data = s.recv(4096)
    return struct.unpack_from('=i', data, 16)[0] if struct.unpack_from('=H', data, 4)[0] == 2 else 0
attempts = {
    'add link': (16, 0x600, struct.pack('=BxHiII', 0, 0, 0, 0, 0) + struct.pack('=HH', 9, 18) + b'x' * 5 + b'\\0' * 3),
    'set link down': (16, 0, struct.pack('=BxHiII', 0, 0, 2, 0, 1)),
    'add address': (20, 0x600, struct.pack('=BBBBi', 2, 24, 0, 0, 2) + struct.pack('=HH4s', 8, 2, bytes([10, 0, 0, 9]))),
    'add route': (24, 0x600, struct.pack('=BBBBBBBBI', 2, 32, 0, 0, 254, 3, 0, 1, 0)
                  + struct.pack('=HH4s', 8, 1, bytes([1, 2, 3, 4])) + struct.pack('=HHi', 8, 4, 2)),
}
for name, (t, f, body) in attempts.items():
    try:
        r = netlink(t, f, body)
    except OSError as e:
        r = -e.errno
    print(name, 'WORKED' if r == 0 else 'refused')
""")
    assert "WORKED" not in r.out, r


def test_no_ipv6_beyond_loopback(sandbox):
    r = sandbox.sh("cut -c1-32,50- /proc/net/if_inet6 2>/dev/null | grep -v ' lo$'")
    assert r.out == "", r


def test_low_ports_without_privileges(sandbox):
    r = sandbox.py("""
import os, socket
os.setgroups([]); os.setgid(1000); os.setuid(1000)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('0.0.0.0', 80))
print('bound')
""")
    assert r.out == "bound", r


def test_packets_with_a_false_source(sandbox, outside):
    """Nothing inside can send with an address that is not its own."""
    address, _host, _ns = outside
    r = sandbox.py(f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for what in ('bind', 'transparent', 'freebind'):
    try:
        if what == 'transparent':
            s.setsockopt(0, 19, 1)
        if what == 'freebind':
            s.setsockopt(0, 15, 1)
        s.bind(('10.250.250.250', 0))
        s.sendto(b'x', ('{address}', 9))
        print(what, 'SENT')
    except OSError:
        pass
""")
    # IP_FREEBIND lets a socket have any address; the host drops what comes from it.
    assert "transparent SENT" not in r.out and "bind SENT" not in r.out.replace("freebind SENT", ""), r


def test_resolver_of_the_sandbox(sandbox):
    text = sandbox.sh("cat /etc/resolv.conf").out
    assert "127." not in text
