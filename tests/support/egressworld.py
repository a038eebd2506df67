"""The servers of the egress tests' world: whatever arrives is written down. Port 80 speaks HTTP, the others
(443, 853, 5353, 9999) take anything; datagrams and pings are noted too. Ends when its parent does."""

import select
import socket
import sys
import threading

LOCK = threading.Lock()


def note(*words):
    with LOCK:
        LOG.write(" ".join(str(w) for w in words) + "\n")
        LOG.flush()


def answer(conn, addr, port):
    with conn:
        conn.settimeout(60)
        try:
            while True:
                data = conn.recv(65536)
                if not data:
                    return
                note("tcp-data", addr, port, data[:80].hex())
                if port == 80 and data.startswith((b"GET", b"POST")):
                    body = f"hello from {addr}".encode()
                    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                else:
                    conn.sendall(data)
        except OSError:
            return


def main():
    tcp, udp = {}, {}
    for family, any_ in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for port in (80, 443, 853, 5353, 9999):
            for kind, table in ((socket.SOCK_STREAM, tcp), (socket.SOCK_DGRAM, udp)):
                s = socket.socket(family, kind)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                s.bind((any_, port))
                if kind == socket.SOCK_STREAM:
                    s.listen(64)
                table[s] = port
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    note("ready")
    while True:
        for s in select.select(list(tcp) + list(udp) + [raw, raw6], [], [])[0]:
            if s in tcp:
                conn, peer = s.accept()
                addr = conn.getsockname()[0]
                note("tcp", addr, tcp[s])
                threading.Thread(target=answer, args=(conn, addr, tcp[s]), daemon=True).start()
            elif s in udp:
                data, peer = s.recvfrom(65536)
                note("udp", peer[0], udp[s], data[:80].hex())
                s.sendto(data, peer)
            else:
                data, peer = s.recvfrom(65536)
                at = (data[0] & 15) * 4 if s is raw else 0
                if data[at] in (8, 128):
                    note("ping", peer[0], data[at + 8:at + 40].hex())


if __name__ == "__main__":
    LOG = open(sys.argv[1], "a")
    main()
