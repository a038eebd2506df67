"""No file of the host beyond the image, to read or to write, for root inside."""

import os
import subprocess

import pytest

MARK = "osb-escape-marker-7f3a"

# tries(name, fn) says what became of it.
TRIES = """
import os, errno
def tries(name, fn):
    try:
        fn()
        print(name, 'WORKED')
    except OSError as e:
        print(name, errno.errorcode[e.errno])
"""


@pytest.fixture(scope="module")
def marker():
    """A file that only host root may read, where a careless bind would show it."""
    paths = [f"/root/{MARK}", f"/tmp/{MARK}", f"/etc/{MARK}", f"/var/tmp/{MARK}", f"/usr/local/{MARK}"]
    for p in paths:
        with open(p, "w") as f:
            f.write("secret of the host")
        os.chmod(p, 0o600)
    yield MARK
    for p in paths:
        os.unlink(p)


def test_no_host_file_is_there(sandbox, marker):
    r = sandbox.py(f"""
import os
found = []
for top, dirs, files in os.walk('/'):
    if top in ('/proc', '/sys'):
        dirs[:] = []
    if '{marker}' in files:
        found.append(top)
print(found)
""")
    assert r.out == "['/usr/local']", r  # of /usr, names can be seen ...
    r = sandbox.sh(f"cat /usr/local/{marker}; cat < /usr/local/{marker}")
    assert "secret" not in r.out  # ... but not what only host root may read
    assert r.err.count("Permission denied") == 2, r


def test_etc_is_not_the_hosts(sandbox):
    r = sandbox.py("""
import os
for p in ('shadow', 'gshadow', 'sudoers', 'ssh', 'machine-id', 'crontab', 'fstab', 'ssl/private', 'krb5.keytab'):
    if os.path.lexists('/etc/' + p):
        print(p)
""")
    assert r.out == "", r
    users = sandbox.sh("cut -d: -f1 /etc/passwd").out.split()
    assert users[0] == "root" and "sandbox" in users


@pytest.mark.parametrize("path", ["/root", "/home", "/srv", "/opt/opensandbox/..", "/var/log", "/mnt", "/media"])
def test_directories_are_empty(sandbox, path):
    r = sandbox.py(f"import os\nprint(sorted(os.listdir('{path}')))")
    assert r.out in ("[]", "['opensandbox']"), r


def test_usr_cannot_be_written(sandbox):
    before = os.stat("/usr/bin/env")
    r = sandbox.py(TRIES + """
tries('create', lambda: open('/usr/new', 'w'))
tries('write', lambda: open('/usr/bin/env', 'r+b'))
tries('chmod', lambda: os.chmod('/usr/bin/env', 0o777))
tries('chown', lambda: os.chown('/usr/bin/env', 0, 0))
tries('unlink', lambda: os.unlink('/usr/bin/env'))
tries('rename', lambda: os.rename('/usr/bin/env', '/usr/bin/env2'))
tries('link', lambda: os.link('/usr/bin/env', '/root/env'))
tries('utime', lambda: os.utime('/usr/bin/env', (0, 0)))
tries('setxattr', lambda: os.setxattr('/usr/bin/env', 'user.x', b'y'))
""")
    assert "WORKED" not in r.out, r
    assert len(r.out.splitlines()) == 9
    after = os.stat("/usr/bin/env")
    assert (before.st_mode, before.st_mtime, before.st_uid) == (after.st_mode, after.st_mtime, after.st_uid)


def test_dotdot_and_proc_links_stay_inside(sandbox, marker):
    r = sandbox.py(f"""
import os, glob
paths = ['/../../../../../../root/{marker}', '/proc/1/root/root/{marker}', '/proc/self/root/../../root/{marker}',
         '/proc/1/cwd/root/{marker}']
for p in paths + glob.glob('/proc/[0-9]*/root/root/{marker}') + glob.glob('/proc/self/fd/*/{marker}'):
    if os.path.exists(p):
        print(p)
print(os.stat('/proc/1/root/').st_ino == os.stat('/').st_ino if os.access('/proc/1/root/', os.R_OK) else True)
""")
    assert r.out == "True", r


def test_execd_cannot_be_replaced(sandbox):
    r = sandbox.py(TRIES + """
E = '/opt/opensandbox/execd'
tries('exe', lambda: os.open('/proc/1/exe', os.O_WRONLY))
tries('write', lambda: os.open(E, os.O_WRONLY))
tries('trunc', lambda: os.truncate(E, 0))
tries('unlink', lambda: os.unlink(E))
tries('rename', lambda: os.rename(E, E + '2'))
tries('over', lambda: os.rename('/etc/hosts', E))
tries('chmod', lambda: os.chmod(E, 0o777))
""")
    assert "WORKED" not in r.out, r


def test_engine_cannot_be_overwritten(sandbox):
    """CVE-2019-5736: no process inside has the engine's program as its /proc/*/exe, and none of them
    can be written to."""
    r = sandbox.py("""
import os, glob
for p in glob.glob('/proc/[0-9]*/exe'):
    try:
        target = os.readlink(p)
    except OSError:
        continue
    if any(w in target for w in ('crun', 'runc', 'runsc', 'memfd')):
        print('engine', p, target)
    try:
        os.close(os.open(p, os.O_WRONLY))
        print('writable', p, target)
    except OSError:
        pass
""")
    assert r.out == "", r


def test_no_descriptor_leaks_in(sandbox):
    """A command has its three descriptors, whatever the server and the engine have open."""
    r = sandbox.py("""
import os
names = []
for fd in os.listdir('/proc/self/fd'):
    try:
        names.append((int(fd), os.readlink('/proc/self/fd/' + fd)))
    except OSError:
        pass
for fd, name in names:
    if fd > 2 and '/proc/' not in name:
        print(fd, name)
""")
    assert r.out == "", r


def test_execd_is_out_of_reach(sandbox):
    """Root inside can neither trace execd nor take its descriptors: its logs lie on the host."""
    r = sandbox.py("""
import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(name, *args):
    ctypes.set_errno(0)
    if libc.syscall(*args) >= 0:
        print(name, 'WORKED')
call('attach', 101, 16, 1, 0, 0)
call('seize', 101, 0x4206, 1, 0, 0)
buf = ctypes.create_string_buffer(16)
class iov(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
here, there = iov(ctypes.addressof(buf), 16), iov(0x400000, 16)
call('process_vm_readv', 310, 1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
pidfd = libc.syscall(434, 1, 0)
if pidfd >= 0:
    for fd in range(3, 12):
        call('pidfd_getfd', 438, pidfd, fd, 0)
for p in ('mem', 'fd/3', 'fd/4'):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open('/proc/1/' + p, flags))
            print('/proc/1/' + p, 'OPENED')
        except OSError:
            pass
""")
    if sandbox.engine == "runsc":
        # gVisor keeps no such distinction between processes of one sandbox; what execd holds there is
        # its three standard descriptors.
        assert "pidfd_getfd" not in r.out, r
    else:
        assert r.out == "", r


def test_setuid_gives_nothing(sandbox):
    r = sandbox.sh("""
cp /usr/bin/id /tmp/sid && chown 0:0 /tmp/sid && chmod 4755 /tmp/sid
cd /tmp && python3 -c "
import os, subprocess
os.setgroups([]); os.setgid(1000); os.setuid(1000)
print(subprocess.run(['/tmp/sid', '-u'], capture_output=True, text=True).stdout.strip())
for p in ('/usr/bin/su', '/usr/bin/mount', '/usr/bin/passwd'):
    if os.path.exists(p):
        r = subprocess.run(['python3', '-c', 'import os; print(os.geteuid())'], capture_output=True, text=True)
        print(r.stdout.strip())
print(open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0])
"
""")
    words = r.out.split()
    assert set(words[:-1]) == {"1000"}, r
    if sandbox.engine != "runsc":
        assert words[-1] == "1"


def test_file_capabilities_give_nothing(sandbox):
    r = sandbox.py("""
import os, struct, subprocess
subprocess.run(['cp', '/usr/bin/python3', '/tmp/capy'], check=True)
try:
    os.setxattr('/tmp/capy', 'security.capability', struct.pack('<IIIII', 0x02000001, 0xffffffff, 0, 0xffffffff, 0))
except OSError:
    pass
code = "print(open('/proc/self/status').read().split('CapEff:')[1].split()[0])"
pid = os.fork()
if pid == 0:
    os.setgroups([]); os.setgid(1000); os.setuid(1000)
    os.execv('/tmp/capy', ['/tmp/capy', '-c', code])
os.waitpid(pid, 0)
""")
    assert r.out.strip() in ("0000000000000000", ""), r


def test_host_ids_are_disjoint(box, sandbox):
    """No two sandboxes share a host id, and none of theirs is one of the host's users."""
    other = "neighbour-ids"
    box.create(other)
    try:
        ranges = []
        for id in (other, sandbox.id):
            inside, first, count = open(f"/proc/{box.record(id)['pid']}/uid_map").read().split()
            assert (inside, count) == ("0", "65536")
            ranges.append(int(first))
            assert open(f"/proc/{box.record(id)['pid']}/gid_map").read().split()[1] == first
        assert abs(ranges[0] - ranges[1]) >= 65536
        assert all(r > 65536 for r in ranges)
        for pid in box.pids():
            try:
                status = open(f"/proc/{pid}/status").read()
            except OSError:
                continue
            uids = [int(x) for x in status.split("Uid:")[1].split("\n")[0].split()]
            assert all(any(r <= u < r + 65536 for r in ranges) for u in uids), (pid, uids)
    finally:
        box.tool("remove", other)


def test_data_directory_is_closed(box, sandbox):
    """Writable layers hold files with setuid bits: no other user of the host may walk in."""
    assert os.stat(box.root).st_mode & 0o777 == 0o700
    r = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "ls", f"{box.root}/sandboxes"],
                       capture_output=True, text=True)
    assert r.returncode != 0
