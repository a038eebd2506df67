"""kill -9 at every step of create, pause, resume and remove; then a new start, and the host as it was.

Needs a build with fault points (tools/build fault)."""

import re
import subprocess

import ocibox
import pytest

SOURCES = subprocess.run(["grep", "-rhoE", r'FAULT_POINT\("oci\.[a-z_.]+"\)', f"{ocibox.ROOT}/src/server/runtime/oci"],
                         capture_output=True, text=True).stdout
POINTS = sorted(set(re.findall(r'"(oci\.[a-z_.]+)"', SOURCES)))
CREATE = [p for p in POINTS if p.startswith("oci.create.")]
OTHER = [p for p in POINTS if p.startswith(("oci.pause.", "oci.resume.", "oci.remove."))]  # the rest: *_crash.py beside this
LATE = ("oci.create.after_running",)  # the sandbox is on record as running: it must go on


@pytest.fixture(scope="module")
def crash_box():
    b = ocibox.Box(id_ranges=16)
    r = b.create("probe", check=False, env={"OSB_FAULT": "oci.create.begin"})
    if r.code != -9:
        b.close()
        pytest.skip("this build has no fault points")
    yield b
    b.close()


def test_there_are_points():
    assert len(CREATE) >= 10 and len(OTHER) >= 8


@pytest.mark.parametrize("disk", [False, True], ids=["dir", "disk"])
@pytest.mark.parametrize("point", CREATE)
def test_create(crash_box, point, disk):
    box = crash_box
    options = ["--disk", 32 << 20] if disk else []
    r = box.create("victim", *options, check=False, env={"OSB_FAULT": point})
    assert r.code == -9, r
    if point in LATE:
        assert box.list() == {"victim": "running"}
        assert box.sh("victim", "echo alive").out == "alive"
        box.tool("remove", "victim")
    else:
        assert box.list() == {}
        box.tool("sweep")
    assert box.clean_soon() == {}
    # And nothing stands in the way of the next one of that name.
    box.create("victim", *options)
    assert box.sh("victim", "echo again").out == "again"
    box.tool("remove", "victim")
    assert box.clean_soon() == {}


@pytest.mark.parametrize("engine", [e for e in ocibox.ENGINES if e != "crun"])
@pytest.mark.parametrize("point", ["oci.create.after_config", "oci.create.after_spawn", "oci.create.after_ready"])
def test_create_with_other_engines(crash_box, point, engine):
    if not ocibox.installed(engine):
        pytest.skip(f"{engine} is not installed")
    box = crash_box
    r = box.create("victim", "--engine", engine, check=False, env={"OSB_FAULT": point})
    assert r.code == -9, r
    box.tool("sweep")
    assert box.list() == {}
    assert box.clean_soon() == {}


@pytest.mark.parametrize("point", OTHER)
def test_pause_resume_remove(crash_box, point):
    box = crash_box
    action = point.split(".")[1]
    box.create("victim")
    if action == "resume":
        box.tool("pause", "victim")
    r = box.tool(action, "victim", check=False, env={"OSB_FAULT": point})
    assert r.code == -9, r
    if action == "remove":
        # Half removed is removed by whoever asks next: the same call, or the sweep.
        box.tool("remove", "victim")
    else:
        assert box.list()["victim"] in ("running", "paused")
        box.tool("resume", "victim")
        assert box.sh("victim", "echo alive").out == "alive"
        box.tool("remove", "victim")
    assert box.list() == {}
    assert box.clean_soon() == {}


@pytest.mark.parametrize("point", [p for p in POINTS if p.startswith("oci.remove.")])
def test_half_removed_is_swept(crash_box, point):
    box = crash_box
    box.create("victim")
    assert box.tool("remove", "victim", check=False, env={"OSB_FAULT": point}).code == -9
    box.tool("sweep")
    assert box.list() == {}
    assert box.clean_soon() == {}


def test_neighbours_do_not_notice(crash_box):
    box = crash_box
    box.create("neighbour")
    for point in ("oci.create.after_cgroup", "oci.create.after_spawn"):
        assert box.create("victim", check=False, env={"OSB_FAULT": point}).code == -9
        assert box.sh("neighbour", "echo fine").out == "fine"
        box.tool("sweep", "neighbour")
        assert box.clean_soon(keep=("neighbour",)) == {}
    assert box.sh("neighbour", "echo fine").out == "fine"
    box.tool("remove", "neighbour")
    assert box.clean_soon() == {}


def test_many_rounds(crash_box):
    """A hundred crashes at points chosen in turn, without looking in between; then one look."""
    box = crash_box
    for i in range(100):
        point = CREATE[i % len(CREATE)]
        box.create(f"r{i % 7}", check=False, env={"OSB_FAULT": point})
    box.tool("sweep")
    assert box.list() == {}
    assert box.clean_soon() == {}
