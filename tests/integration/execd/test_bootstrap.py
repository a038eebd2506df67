"""images/bootstrap.sh: trust, environment, the forms of the user's command, signals."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest
import requests
from conftest import EXECD, WAIT, wait_for

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
SCRIPT = os.path.join(os.path.dirname(__file__), "../../../images/bootstrap.sh")


@pytest.fixture
def opt(tmp_path):
    """What a container has under /opt/opensandbox."""
    d = tmp_path / "opt"
    d.mkdir()
    shutil.copy(EXECD, d / "execd")
    shutil.copy(SCRIPT, d / "bootstrap.sh")
    # The real one would change this machine's trust store; ours only says that it was called.
    (d / "bin").mkdir()
    for name in ("update-ca-certificates", "update-ca-trust", "certutil"):
        (d / "bin" / name).write_text(f"#!/bin/sh\necho \"{name} $*\" >> /opt/opensandbox/called\n")
        (d / "bin" / name).chmod(0o755)
    return d


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def command(opt, *args, shell="sh", image=":"):
    """As PID 1, where /opt/opensandbox, /etc and the trust stores are ours, and what `image` makes there."""
    setup = ("mount -t tmpfs none /opt && mkdir /opt/opensandbox /opt/upper /opt/work && "
             f"mount --bind {opt} /opt/opensandbox && "
             "mount -t overlay -o lowerdir=/etc,upperdir=/opt/upper,workdir=/opt/work none /etc && mkdir -p /usr/local/share/ca-certificates && "
             f"mount -t tmpfs none /usr/local/share/ca-certificates && {image} && exec \"$@\"")
    return ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "sh", "-c", setup, "sh", shell,
            "/opt/opensandbox/bootstrap.sh", *args]


def environment(**env):
    base = {k: v for k, v in os.environ.items()
            if not k.startswith(("EXECD", "BOOTSTRAP", "OPENSANDBOX", "SSL_", "REQUESTS_", "NODE_"))}
    return {**base, "PATH": "/opt/opensandbox/bin:" + base["PATH"], **env}


def boot(opt, *args, shell="sh", image=":", **env):
    return subprocess.run(command(opt, *args, shell=shell, image=image), capture_output=True, text=True, timeout=WAIT,
                          env=environment(**env), stdin=subprocess.DEVNULL)


@pytest.fixture(params=["init", "beside", "none"])
def mode(request, opt):
    """execd as the parent, beside, or not there at all: the user's command does not notice."""
    if request.param == "none":
        (opt / "execd").unlink()
    return {"EXECD_BOOTSTRAP_BESIDE": "1"} if request.param == "beside" else {}


def wrapper(opt, port):
    """An execd on a port of our own: the default one may be taken on this machine."""
    if (opt / "execd").exists():
        (opt / "execd.real").write_bytes((opt / "execd").read_bytes())
        (opt / "execd.real").chmod(0o755)
        (opt / "execd").write_text(
            "#!/bin/sh\nx=/opt/opensandbox/execd.real\nif [ \"$1\" = init ]; then shift; "
            f"exec $x init --address 127.0.0.1 --port {port} \"$@\"; fi\n"
            f"exec $x --address 127.0.0.1 --port {port} \"$@\"\n")
        (opt / "execd").chmod(0o755)


@pytest.mark.parametrize("args,env,out,status", [
    (("echo", "a b", "c"), {}, "a b c\n", 0),
    (("sh", "-c", "exit 7"), {}, "", 7),
    (("-c", "echo", "one", "two;", "exit", "3"), {}, "one two\n", 3),
    ((), {"BOOTSTRAP_CMD": "echo from cmd; exit 4"}, "from cmd\n", 4),
    (("ignored",), {"BOOTSTRAP_CMD": "echo $0", "BOOTSTRAP_SHELL": "/bin/dash"}, "/bin/dash\n", 0),
])
def test_forms(opt, mode, args, env, out, status):
    wrapper(opt, free_port())
    r = boot(opt, *args, **env, **mode)
    assert (r.stdout, r.returncode) == (out, status), r.stderr


def test_envs_file(opt, mode):
    wrapper(opt, free_port())
    r = boot(opt, "-c", "echo $EXECD_ENVS; test -f $EXECD_ENVS && echo there", **mode)
    assert r.stdout == "/opt/opensandbox/.env\nthere\n", r.stderr
    r = boot(opt, "-c", "echo $EXECD_ENVS", EXECD_ENVS="/opt/opensandbox/deep/er", **mode)
    assert r.stdout == "/opt/opensandbox/deep/er\n" and (opt / "deep" / "er").exists()


def test_pre_script(opt, mode):
    wrapper(opt, free_port())
    (opt / "pre.sh").write_text("export FROM_PRE=yes\n")
    r = boot(opt, "-c", "echo $FROM_PRE", EXECD_BOOTSTRAP_PRE_SCRIPT="/opt/opensandbox/pre.sh", **mode)
    assert r.stdout == "yes\n"
    r = boot(opt, "-c", "echo on", EXECD_BOOTSTRAP_PRE_SCRIPT="/nonexistent", **mode)
    assert r.stdout == "on\n" and "cannot read /nonexistent" in r.stderr


@pytest.mark.parametrize("beside", ["", "1"])
def test_execd_answers_and_ends_with_the_command(opt, beside):
    port = free_port()
    wrapper(opt, port)
    proc = subprocess.Popen(command(opt, "-c", "trap 'echo bye; exit 5' TERM; while :; do sleep 0.05; done"),
                            env=environment(EXECD_BOOTSTRAP_BESIDE=beside), stdout=subprocess.PIPE, text=True)

    def answers():
        try:
            return requests.get(f"http://127.0.0.1:{port}/ping", timeout=WAIT).status_code == 200
        except requests.ConnectionError:
            return False
    wait_for(answers, "execd")
    r = requests.post(f"http://127.0.0.1:{port}/command", json={"command": "echo $EXECD_ENVS"}, timeout=WAIT)
    assert '"/opt/opensandbox/.env"' in r.text
    child = subprocess.run(["pgrep", "-P", str(proc.pid)], capture_output=True, text=True).stdout
    os.kill(int(child), signal.SIGTERM)
    assert proc.wait(WAIT) == 0
    assert proc.stdout.read() == "bye\n"


def test_trust(opt, mode):
    wrapper(opt, free_port())
    (opt / "mitmproxy-ca-cert.pem").write_text("-----BEGIN CERTIFICATE-----\nOURS\n-----END CERTIFICATE-----\n")
    show = ("echo $NODE_EXTRA_CA_CERTS; echo $REQUESTS_CA_BUNDLE; echo $SSL_CERT_FILE; "
            "grep -c OURS $SSL_CERT_FILE; grep -c BEGIN $SSL_CERT_FILE; "
            "ls /usr/local/share/ca-certificates")
    r = boot(opt, "-c", show, OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="True", HOME="/opt/opensandbox", **mode)
    lines = r.stdout.splitlines()
    merged = "/opt/opensandbox/merged-ca-certificates.pem"
    assert lines[:4] == ["/opt/opensandbox/mitmproxy-ca-cert.pem", merged, merged, "1"], r.stderr
    assert int(lines[4]) >= 1
    assert lines[5:] == ["opensandbox-egress.crt"]
    called = (opt / "called").read_text()
    assert "update-ca-certificates" in called and "certutil -d sql:/opt/opensandbox/.pki/nssdb -A " in called


FIREFOX = [f"/etc/{name}/policies/policies.json" for name in ("firefox", "firefox-esr")]
CHROMIUM = [f"/etc/{name}/policies/managed/opensandbox-egress.json"
            for name in ("chromium", "opt/chrome", "opt/chrome_for_testing", "opt/edge", "brave")]


def policies(opt, image):
    """The browsers' policy files after two starts, and what was said."""
    (opt / "mitmproxy-ca-cert.pem").write_text("-----BEGIN CERTIFICATE-----\nQUJD\nREVG\n-----END CERTIFICATE-----\n"
                                               "-----BEGIN CERTIFICATE-----\nWA==\n-----END CERTIFICATE-----\n")
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"
    show = f"for f in {' '.join(FIREFOX + CHROMIUM)}; do if [ -f $f ]; then echo @$f; {nobody} cat $f; fi; done"
    r = boot(opt, "sh", "/opt/opensandbox/bootstrap.sh", "-c", show, image=image, EXECD_INIT="1", HOME="/proc/nonexistent",
             OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="1")
    found = {}
    for part in r.stdout.split("@")[1:]:
        name, text = part.split("\n", 1)
        found[name] = text
    return found, r.stderr


def test_trust_of_browsers(opt):
    found, said = policies(opt, "umask 027")
    assert sorted(found) == sorted(FIREFOX + CHROMIUM), said
    for name in FIREFOX:
        assert json.loads(found[name]) == {"policies": {"Certificates": {"Install": ["/opt/opensandbox/mitmproxy-ca-cert.pem"]}}}
    for name in CHROMIUM:
        assert json.loads(found[name]) == {"CACertificates": ["QUJDREVG", "WA=="]}
    assert "policies" not in said


def test_policies_of_the_image_stay(opt):
    own = {"policies": {"DisableTelemetry": True, "Certificates": {"ImportEnterpriseRoots": False, "Install": ["/own.pem"]}}}
    (opt / "own.json").write_text(json.dumps(own))
    found, said = policies(
        opt, "mkdir -p /etc/firefox/policies /etc/firefox-esr/policies /etc/opt && cp /opt/opensandbox/own.json "
             "/etc/firefox/policies/policies.json && echo '{oops' > /etc/firefox-esr/policies/policies.json && : > /etc/opt/chrome")
    own["policies"]["Certificates"]["Install"].append("/opt/opensandbox/mitmproxy-ca-cert.pem")
    assert json.loads(found[FIREFOX[0]]) == own, said
    assert found[FIREFOX[1]] == "{oops\n" and CHROMIUM[1] not in found and CHROMIUM[0] in found
    assert f"browsers' policies: {FIREFOX[1]} {CHROMIUM[1]}\n" in said


def test_trust_of_curl_git_and_later_commands(opt):
    wrapper(opt, free_port())
    (opt / "mitmproxy-ca-cert.pem").write_text("OURS\n")
    r = boot(opt, "-c", "echo $CURL_CA_BUNDLE $GIT_SSL_CAINFO", OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="1", EXECD_INIT="1",
             HOME="/proc/nonexistent")
    merged = "/opt/opensandbox/merged-ca-certificates.pem"
    assert r.stdout.split() == [merged, merged], r.stderr
    told = (opt / ".env").read_text().splitlines()
    assert f"SSL_CERT_FILE={merged}" in told and f"GIT_SSL_CAINFO={merged}" in told
    assert "NODE_EXTRA_CA_CERTS=/opt/opensandbox/mitmproxy-ca-cert.pem" in told


@pytest.mark.skipif(not shutil.which("keytool"), reason="no Java here")
def test_trust_of_java(opt):
    wrapper(opt, free_port())
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    "/dev/null", "-out", str(opt / "mitmproxy-ca-cert.pem"), "-days", "2", "-subj", "/CN=ours"],
                   check=True, capture_output=True)
    r = boot(opt, "-c", "echo $JAVA_TOOL_OPTIONS", OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="1", HOME="/opt/opensandbox")
    assert r.stdout.endswith("-Djavax.net.ssl.trustStore=/opt/opensandbox/java-cacerts\n"), r.stderr
    out = subprocess.run(["keytool", "-list", "-keystore", str(opt / "java-cacerts"), "-storepass", "changeit", "-alias",
                          "opensandbox-egress"], capture_output=True, text=True)
    assert out.returncode == 0, out.stdout


def test_no_trust_unless_asked(opt):
    wrapper(opt, free_port())
    for value in ("", "false", "0"):
        r = boot(opt, "-c", "echo ${SSL_CERT_FILE-none}", OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT=value)
        assert r.stdout == "none\n"


def test_certificate_that_comes_late_or_never(opt):
    wrapper(opt, free_port())
    env = environment(OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="1", HOME="/proc/nonexistent")
    proc = subprocess.Popen(command(opt, "-c", "echo $SSL_CERT_FILE"), env=env, stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    assert proc.poll() is None
    (opt / "mitmproxy-ca-cert.pem").write_text("X\n")
    assert proc.communicate(timeout=WAIT)[0] == "/opt/opensandbox/merged-ca-certificates.pem\n"
    (opt / "mitmproxy-ca-cert.pem").unlink()
    r = boot(opt, "-c", "echo ${SSL_CERT_FILE-none}", OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT="1",
             OPENSANDBOX_CA_WAIT_SECONDS="0")
    assert r.stdout == "none\n" and "going on without it" in r.stderr


def test_under_execd_init(opt):
    """Where the server starts execd as PID 1, the script is its entrypoint and starts no other."""
    r = boot(opt, "-c", "echo up; ps -e -o args= | grep -c '[e]xecd init' || true", EXECD_INIT="1")
    assert r.stdout.startswith("up\n")


def test_what_other_tools_look_for():
    with open(SCRIPT) as f:
        text = f.read()
    for word in ("trust_mitm_ca", "_forward_signal", "OPENSANDBOX_MERGED_CA", "EXECD_BOOTSTRAP_PRE_SCRIPT",
                 'EXECD="${EXECD:=', "export EXECD_ENVS"):
        assert word in text


@pytest.mark.parametrize("shell", [("dash",), ("bash", "--posix"), ("busybox", "sh")])
def test_any_posix_shell(opt, shell):
    if not shutil.which(shell[0]):
        pytest.skip(f"no {shell[0]}")
    wrapper(opt, free_port())
    cmd = command(opt, "-c", "echo fine")
    at = cmd.index("/opt/opensandbox/bootstrap.sh")
    cmd[at - 1:at] = shell
    r = subprocess.run(cmd, capture_output=True, text=True, timeout=WAIT, env=environment())
    assert r.stdout == "fine\n", r.stderr
