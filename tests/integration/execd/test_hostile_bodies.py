"""Bodies within their size limit whose trees would be large: refused or carried out, never the end of execd."""

import pytest


def many(n, entry):
    return "{" + ",".join(f'"{i:x}":{entry}' for i in range(n)) + "}"


def repeated(n, entry):
    return "[" + ",".join([entry] * n) + "]"


CASES = {
    "replace-too-many": ("/files/replace", lambda: many(1_200_000, "{}")),
    "replace-many": ("/files/replace", lambda: many(500_000, "{}")),
    "permissions": ("/files/permissions", lambda: many(380_000, "{}")),
    "move-objects": ("/files/mv", lambda: repeated(1_300_000, "{}")),
    "move-arrays": ("/files/mv", lambda: repeated(1_300_000, "[]")),
    "command-envs": ("/command", lambda: '{"command":"true","envs":' + many(1_000_000, '""') + "}"),
    "session-deep": ("/session", lambda: '{"cwd":' + "[" * 1_000_000),
    "directories": ("/directories", lambda: many(300_000, "[]")),
}


@pytest.mark.parametrize("case", CASES)
def test_survives(launch, case):
    path, body = CASES[case]
    execd = launch()
    r = execd.post(path, data=body().encode(), headers={"Content-Type": "application/json"})
    assert 400 <= r.status_code < 600, r.text[:200]
    assert execd.get("/ping").status_code == 200
    assert execd.proc.poll() is None
