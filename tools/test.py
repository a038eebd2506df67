#!/usr/bin/python3
"""Runs every test there is and ends with one line: N passed, N failed, N skipped.

A stage is a list of jobs, and all jobs wait in one queue (tools/testqueue.py). What a stage prints goes to build/test/<stage>.log,
and the end of what a job printed is shown when something in it failed. `--only lint,unit` picks stages.

The queue keeps the processors busy, so a case may fail for want of time alone. A few that failed get a second try when the
machine is quiet; what passes only then is called unsteady, by name, beside the output of its failure.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import time

from testqueue import OUT, ROOT, Job, Queue, Result

PYTHON = "/usr/bin/python3"
CASE_SECONDS = 600  # a case that takes longer hangs
SECOND_TRIES = 8  # more failures than this in one suite are no accident
FLAVOURS = ("release", "asan", "fault", "tsan", "fuzz", "clang")  # in the order in which suites want them
# Suites that others wait for, because they install or build something, then the longest; the others follow by name.
FIRST = ("conformance", "chaos", "integration-code", "integration-server", "security", "integration-docker", "conformance-interchange",
         "integration-execd", "integration-storage", "property")
IMAGE = ("conformance", "integration-code")  # suites that run the code interpreter's image


def suite_name(suite):
    return os.path.relpath(suite, os.path.join(ROOT, "tests")).replace("/", "-")


def suites_below(path):
    """Directories below `path` that hold test files."""
    found = {os.path.dirname(f) for f in glob.glob(os.path.join(ROOT, path, "**", "test_*.py"), recursive=True)}
    return sorted(f for f in found if f != os.path.join(ROOT, "tests/conformance/python"))  # started by the suite above it


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [f for f in out.stdout.split("\n") if f]


class Suite(Job):
    """A directory of tests for pytest. Each on its own, because their conftest modules do not mix; never two of the same directory
    at a time."""

    def __init__(self, stage, flavour, path, also=()):
        name = suite_name(path)
        image = ["image"] if name in IMAGE and flavour == "release" else []
        super().__init__(stage, name, Suite.pytest, needs=[flavour, *also, *image], place=path)
        self.flavour, self.path = flavour, path
        self.cache = os.path.join(OUT, "cache", f"{stage}-{self.name}")  # where pytest notes which cases failed

    def pytest(self, *more):
        bin_dir = os.path.join(ROOT, "build/bin" if self.flavour == "release" else f"build/{self.flavour}/bin")
        env = {"OSB_BIN": bin_dir, "OSB_FLAVOUR": self.flavour, "PYTHONDONTWRITEBYTECODE": "1"}
        xml = os.path.join(OUT, f"{self.stage}-{self.name}.xml")
        if os.path.exists(xml):
            os.unlink(xml)
        if not more:
            shutil.rmtree(self.cache, ignore_errors=True)
        self.junit(xml, self.name, self.run(
            [PYTHON, "-m", "pytest", "-q", "-ra", "--tb=short", "-o", f"cache_dir={self.cache}",
             f"--timeout={0 if self.stage in ON_DEMAND else CASE_SECONDS}", "--durations=5", f"--junitxml={xml}", *more, self.path], env))

    def second_try(self):
        """The same suite, but only what failed."""
        again = Suite(self.stage, self.flavour, self.path)
        again.work = lambda job: job.pytest("--last-failed", "--last-failed-no-failures", "none")
        return again


def suites(stage, flavour, path, also=()):
    return [Suite(stage, flavour, p, also) for p in suites_below(path)]


def meson(job, flavour, names):
    xml = os.path.join(ROOT, "build", flavour, "meson-logs", "testlog.junit.xml")
    if os.path.exists(xml):
        os.unlink(xml)
    cmd = ["meson", "test", "-C", f"build/{flavour}", "--print-errorlogs", "--num-processes", "1"]
    for name in names:
        cmd += ["--suite", name]
    job.junit(xml, f"meson {flavour}", job.run(cmd))


def work_lint(job):
    job.check("room edges", [PYTHON, "tools/check_rooms.py"])
    job.check("style", [PYTHON, "tools/check_style.py"])
    job.check("docs/limits.md", [PYTHON, "tools/gen_limits.py", "--check"])
    job.check("layout (make format)", ["clang-format", "--dry-run", "-Werror", *tracked("*.c", "*.h")])


def build(flavour):
    return Job("build", flavour, lambda job: job.check(flavour, ["tools/build", flavour]), builds=flavour, computes=True)


def image():
    """The code interpreter's. It waits for registries more than it computes."""
    return Job("build", "image", lambda job: job.check("image", [PYTHON, "tests/support/codeimage.py"]), builds="image")


def work_fuzz(job):
    for exe in sorted(glob.glob(os.path.join(ROOT, "build/fuzz/bin/fuzz_*"))):
        target = os.path.basename(exe)[len("fuzz_"):]
        corpus = os.path.join(ROOT, "fuzz/corpus", target)
        grown = os.path.join(ROOT, "build/fuzz/corpus", target)
        os.makedirs(grown, exist_ok=True)
        crash = os.path.join(OUT, f"crash-{target}-")
        job.check(target, [exe, f"-max_total_time={ARGS.fuzz_seconds}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=0",
                           "-verbosity=0", f"-artifact_prefix={crash}", grown, corpus], timeout=ARGS.fuzz_seconds + 120)


STAGES = {
    "lint": lambda: [Job("lint", "lint", work_lint, computes=True)],
    "build": lambda: [*map(build, FLAVOURS), image(), Job("build", "docs", lambda job: job.check(
        "docs/configuration.md", [PYTHON, "tools/gen_config.py", "--check"]), needs=["release"], computes=True)],
    "tidy": lambda: [Job("tidy", "tidy", lambda job: job.check(
        "clang-tidy", ["tools/tidy", *tracked("src/**/*.c", "src/*.c")]), needs=["clang"], computes=True)],
    "unit": lambda: [Job("unit", "unit", lambda job: meson(job, "asan", ["unit", "corpus"]), needs=["asan"])],
    # The rooms with threads once more, under ThreadSanitizer.
    "threads": lambda: [Job("threads", "threads", lambda job: meson(job, "tsan", ["threaded"]), needs=["tsan"])],
    "fuzz": lambda: [Job("fuzz", "fuzz", work_fuzz, needs=["fuzz"])],
    "integration": lambda: suites("integration", "release", "tests/integration"),
    # The same programs with ASan and UBSan, but the static execd inside sandboxes.
    "integration-asan": lambda: suites("integration-asan", "asan", "tests/integration", also=["release"]),
    "security": lambda: suites("security", "release", "tests/security"),
    "chaos": lambda: suites("chaos", "fault", "tests/chaos"),
    # Clients as they are published.
    "conformance": lambda: suites("conformance", "release", "tests/conformance"),
    # Requests made up from the specs, to servers that notice what they do to their memory; execd is always the static one.
    "property": lambda: suites("property", "asan", "tests/property", also=["release"]),
    # On a machine with another kernel and other control groups than this one's.
    "vm": lambda: suites("vm", "release", "tests/vm"),
    "soak": lambda: suites("soak", "release", "tests/soak"),
}
ON_DEMAND = {"soak"}


def jobs_of(names):
    """The jobs of these stages in the order in which they should begin, and whatever must be built for them."""
    jobs = [job for name in names for job in STAGES[name]()]
    needed = {n for job in jobs for n in job.needs} - {job.builds for job in jobs}
    jobs[:0] = [*(build(f) for f in FLAVOURS if f in needed), *([image()] if "image" in needed else [])]
    rank = {name: i for i, name in enumerate(FIRST)}
    return sorted(jobs, key=lambda job: rank.get(job.name, len(FIRST)) if isinstance(job, Suite) else -1)


def second_try(jobs, total):
    """Runs what failed in the crowd once more; what passes now was unsteady."""
    for job in jobs:
        failed = job.result.failed
        if not isinstance(job, Suite) or not 0 < failed <= SECOND_TRIES:
            continue
        print(f"{job.stage}: {job.name} once more ...", flush=True)
        again = job.second_try()
        again.go()
        again.keep_log()
        r = again.result
        if r.failed:
            again.show_end()
        if r.passed and r.passed + r.failed == failed:
            total.failed -= r.passed
            total.passed += r.passed
            total.notes.append(f"{job.stage}: {r.passed} of the {failed} cases of {job.name} that failed passed alone: unsteady")


def main():
    global ARGS
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--only", default="", help="comma-separated stages: " + ", ".join(STAGES))
    ap.add_argument("--fuzz-seconds", type=int, default=4)
    ARGS = ap.parse_args()
    names = [n for n in ARGS.only.split(",") if n] or [n for n in STAGES if n not in ON_DEMAND]
    unknown = [n for n in names if n not in STAGES]
    if unknown:
        ap.error(f"unknown stage {unknown[0]!r}; there are: {', '.join(STAGES)}")

    start = time.monotonic()
    jobs = jobs_of(names)
    Queue(jobs).run()
    total = Result()
    for job in jobs:
        total.add(job.result)
    second_try(jobs, total)
    for note in total.notes:
        print(note)
    print(f"{(time.monotonic() - start) / 60:.1f} minutes")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
