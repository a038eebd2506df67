"""osb file."""

import os


def test_write_cat_info(osb, box):
    assert osb.ok("file", "write", box, "/tmp/a.txt", "-c", "hello", "--mode", "0640") == "  ✅ Written: /tmp/a.txt\n"
    assert osb.ok("file", "cat", box, "/tmp/a.txt") == "hello"
    osb.ok("file", "write", box, "/tmp/b.txt", stdin="from stdin\n")
    assert osb.ok("file", "cat", box, "/tmp/b.txt") == "from stdin\n"
    info = osb.json("file", "info", box, "/tmp/a.txt")
    assert list(info[0]) == ["path", "entry_type", "mode", "owner", "group", "size", "modified_at", "created_at"]
    assert info[0]["mode"] == 640 and info[0]["size"] == 5


def test_upload_download(osb, box, tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "in.bin").write_bytes(data)
    remote = "/tmp/up/load.bin"
    assert "Uploaded: " in osb.ok("file", "upload", box, str(tmp_path / "in.bin"), remote)
    osb.ok("file", "download", box, remote, str(tmp_path / "new" / "dir" / "out.bin"))
    assert (tmp_path / "new" / "dir" / "out.bin").read_bytes() == data
    r = osb("file", "upload", box, str(tmp_path / "missing"), remote)
    assert r.returncode == 2 and "does not exist." in r.stderr
    r = osb("file", "download", box, "/no/such", str(tmp_path / "x"))
    assert r.returncode == 1 and not (tmp_path / "x").exists()


def test_directories_move_search_replace(osb, box):
    assert osb.json("file", "mkdir", box, "/tmp/d1/x", "/tmp/d2") == [
        {"path": "/tmp/d1/x", "status": "created"}, {"path": "/tmp/d2", "status": "created"}]
    osb.ok("file", "write", box, "/tmp/d1/x/one.py", "-c", "a = 1")
    osb.ok("file", "replace", box, "/tmp/d1/x/one.py", "--old", "1", "--new", "22")
    assert osb.ok("file", "cat", box, "/tmp/d1/x/one.py") == "a = 22"
    assert [e["path"] for e in osb.json("file", "search", box, "/tmp/d1", "-p", "*.py")] == ["/tmp/d1/x/one.py"]
    assert osb.json("file", "search", box, "/tmp/d1", "-p", "*.none") == []
    assert "No files found." in osb.ok("file", "search", box, "/tmp/d1", "-p", "*.none")
    assert osb.ok("file", "mv", box, "/tmp/d1/x/one.py", "/tmp/d2/two.py") == (
        "  ✅ Moved: /tmp/d1/x/one.py → /tmp/d2/two.py\n")
    osb.ok("file", "chmod", box, "/tmp/d2/two.py", "--mode", "600")
    assert osb.json("file", "info", box, "/tmp/d2/two.py")[0]["mode"] == 600
    assert osb.json("file", "rm", box, "/tmp/d2/two.py") == [{"path": "/tmp/d2/two.py", "status": "deleted"}]
    assert osb.json("file", "rmdir", box, "/tmp/d1", "/tmp/d2")[1]["status"] == "removed"


def test_bad_mode(osb, box):
    r = osb("file", "chmod", box, "/tmp", "--mode", "9x")
    assert r.returncode == 2 and "Invalid value for '--mode'" in r.stderr
