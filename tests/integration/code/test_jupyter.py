"""What only a Jupyter server can do to us."""

from conftest import TOKEN


def test_a_wrong_token_is_told(launch, jupyter):
    code = launch(JUPYTER_HOST=jupyter, JUPYTER_TOKEN="not " + TOKEN)
    # The server may still be starting: that is waited for, a refusal is not.
    r = code.execd.post("/code/context", json={"language": "python"})
    assert r.status_code == 500 and "JUPYTER_TOKEN" in r.json()["message"]
    assert code.contexts() == []


def test_a_host_that_is_none(launch):
    for host, text in (("https://127.0.0.1", "https is not supported"), ("127.0.0.1:1", "expected http://"),
                       ("http://no-such-host.invalid", "cannot be resolved")):
        code = launch(JUPYTER_HOST=host, JUPYTER_TOKEN="t")
        r = code.execd.post("/code/context", json={"language": "python"}, timeout=120)
        assert r.status_code == 500 and text in r.json()["message"], r.text


def test_directory_and_environment_behind_jupyter(launch, jupyter, tmp_path):
    code = launch(JUPYTER_HOST=jupyter, JUPYTER_TOKEN=TOKEN)
    where = tmp_path / "made for it"
    c = code.create(cwd=str(where), envs={"ONE": "1", "TWO": "a \"b'\u00e9\U0001f600=\n"})
    ask = "import os; print((os.getcwd(), os.environ['ONE'], os.environ['TWO'])); 7"
    want = repr((str(where), "1", "a \"b'\u00e9\U0001f600=\n")) + "\n"
    ev = code.run(ask, c)
    assert "".join(ev.stdout) == want and ev.of("execution_count")[0]["execution_count"] == 1
    assert code.run("os._exit(1)", c).error["ename"] == "KernelDied"
    assert "".join(code.run(ask, c).stdout) == want
    r = code.execd.post("/code/context", json={"language": "bash", "envs": {"A": "b"}})
    assert r.status_code == 500 and "envs" in r.json()["message"]
