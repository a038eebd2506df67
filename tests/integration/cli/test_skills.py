"""osb skills: list, show, install and remove, per target."""

import pytest

SLUGS = ["sandbox-troubleshooting", "sandbox-lifecycle", "command-execution", "file-operations", "network-egress",
         "credential-vault"]
COPIES = {"claude": ".claude/skills/%s.md", "cursor": ".cursor/rules/%s.mdc", "codex": ".codex/skills/%s/SKILL.md",
          "opencode": ".agents/skills/%s/SKILL.md"}
APPENDED = {"copilot": ".github/copilot-instructions.md", "windsurf": ".windsurfrules", "cline": ".clinerules"}


def test_list_and_show(local):
    j = local.json("skills", "list")
    assert [s["slug"] for s in j["skills"]] == SLUGS
    assert [s["area"] for s in j["skills"]] == ["Troubleshooting", "Lifecycle", "Execution", "Files", "Network", "General"]
    assert "Bundled skills" in local.ok("skills", "list") and "Supported targets" in local.ok("skills", "list")
    for slug in SLUGS:
        s = local.json("skills", "show", slug)
        assert s["quick_start"] and s["when_to_use"] and s["json_shapes"]
        assert s["content"].startswith("---\nname: %s\n" % slug)
    r = local("skills", "show", "sandbox-lifecycl")
    assert r.returncode == 2 and "Did you mean 'sandbox-lifecycle'?" in r.stderr


@pytest.mark.parametrize("target", COPIES)
def test_copied(local, tmp_path, target):
    path = tmp_path / (COPIES[target] % "file-operations")
    args = ("file-operations", "--target", target, "--scope", "project")
    j = local.json("skills", "install", *args, cwd=tmp_path)
    assert [o["status"] for o in j["operations"]] == ["installed"] and j["requires_restart"] is True
    assert path.read_text().startswith("---" if target != "cursor" else "# OpenSandbox File Operations\n\n")
    assert local.json("skills", "install", *args, cwd=tmp_path)["operations"][0]["status"] == "already_present"
    path.write_text("changed")
    assert local.json("skills", "install", *args, cwd=tmp_path)["operations"][0]["status"] == "updated"
    assert local.json("skills", "uninstall", *args, cwd=tmp_path)["operations"][0]["status"] == "removed"
    assert not path.exists() and not path.parent.exists()
    assert local.json("skills", "uninstall", *args, cwd=tmp_path)["operations"][0]["status"] == "not_installed"


@pytest.mark.parametrize("target", APPENDED)
def test_appended(local, tmp_path, target):
    path = tmp_path / APPENDED[target]
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine\n")
    local.ok("skills", "install", "--all-builtins", "-t", target, "--scope", "global")
    text = path.read_text()
    assert text.startswith("mine\n") and all(text.count("<!-- BEGIN opensandbox-%s -->" % s) == 1 for s in SLUGS)
    again = local.json("skills", "install", "--all-builtins", "-t", target, "--scope", "global")
    assert {o["status"] for o in again["operations"]} == {"already_present"} and path.read_text() == text
    for slug in SLUGS:
        local.ok("skills", "uninstall", slug, "-t", target, "--scope", "global")
    assert path.read_text() == "mine\n"
    path.unlink()
    local.ok("skills", "install", SLUGS[0], "-t", target, "--scope", "global")
    local.ok("skills", "uninstall", "-t", target, "--scope", "global")
    assert not path.exists()


def test_usage(local):
    for args in (["install", "file-operations"], ["install", "-t", "claude", "--scope", "global"],
                 ["install", "x", "--all-builtins", "-t", "claude", "--scope", "global"],
                 ["install", "file-operations", "-t", "nobody", "--scope", "global"]):
        r = local("skills", *args)
        assert r.returncode == 2 and "Error: " in r.stderr
