#!/usr/bin/python3
"""Runs every test there is and ends with one line: N passed, N failed, N skipped.

Stages run in order, those of LANES two at a time; a stage is a function that yields results. What a stage prints goes to
build/test/<stage>.log, and its end is shown when something failed. `--only lint,unit` picks stages.

The lanes keep both processors busy, so a case there may fail for want of time alone. A few that failed get a second try
when the machine is quiet; what passes only then is called unsteady, by name, beside the output of its failure.
"""

import argparse
import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "test")
PYTHON = "/usr/bin/python3"
PRINTING = threading.Lock()
CASE_SECONDS = 600  # a case that takes longer hangs
SECOND_TRIES = 8  # more failures than this in one suite are no accident
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=99",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=99:second_deadlock_stack=1",
    "LSAN_OPTIONS": "exitcode=99",
}


class Result:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes = []
        self.tried = []  # suites of pytest with a few failures

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.notes += other.notes
        self.tried += other.tried


class Stage:
    """Where one stage writes its log, and how it runs commands."""

    def __init__(self, name, args, again=False):
        self.name, self.args = name, args
        self.result = Result()
        self.ends = []  # where in the log a suite ended that failed
        os.makedirs(OUT, exist_ok=True)
        self.log_path = os.path.join(OUT, name + ".log")
        self.log = open(self.log_path, "a" if again else "w")

    def run(self, cmd, env=None, timeout=2400):
        line = " ".join(cmd)
        self.log.write("$ " + (line if len(line) < 400 else line[:400] + " ...") + "\n")
        self.log.flush()
        full = dict(os.environ, **SANITIZERS, **(env or {}))
        try:
            return subprocess.run(cmd, cwd=ROOT, env=full, stdin=subprocess.DEVNULL, stdout=self.log,
                                  stderr=subprocess.STDOUT, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            self.log.write(f"timed out after {timeout} s\n")
            return 124

    def check(self, what, cmd, env=None, timeout=2400):
        """One command, one result."""
        return self.count(what, self.run(cmd, env, timeout))

    def count(self, what, code):
        if code == 0:
            self.result.passed += 1
            return True
        self.result.failed += 1
        self.result.notes.append(f"{self.name}: {what} failed")
        return False

    def junit(self, path, what, code):
        """Counts the cases of a JUnit file; a run that wrote none counts as one failure."""
        if not os.path.exists(path):
            self.result.failed += 1
            self.result.notes.append(f"{self.name}: {what} wrote no results (exit {code})")
            return
        failed_before = self.result.failed
        for case in ET.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname') or what}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                self.result.failed += 1
                self.result.notes.append(f"{self.name}: {name} failed")
            elif case.find("skipped") is not None:
                self.result.skipped += 1
                reason = case.find("skipped").get("message") or "no reason given"
                self.result.notes.append(f"{self.name}: {name} skipped: {reason}")
            else:
                self.result.passed += 1
        if code not in (0, 5) and self.result.failed == failed_before:
            self.result.failed += 1
            self.result.notes.append(f"{self.name}: {what} ended with exit {code}")

    def meson(self, flavour, suites):
        xml = os.path.join(ROOT, "build", flavour, "meson-logs", "testlog.junit.xml")
        if os.path.exists(xml):
            os.unlink(xml)
        cmd = ["meson", "test", "-C", f"build/{flavour}", "--print-errorlogs", "--num-processes", "2"]
        for s in suites:
            cmd += ["--suite", s]
        self.junit(xml, f"meson {flavour}", self.run(cmd))

    def pytest(self, flavour, path):
        """Each directory of tests on its own: their conftest modules do not mix."""
        for suite in suites_below(path):
            start = time.monotonic()
            shutil.rmtree(self.cache(suite), ignore_errors=True)
            failed = self.pytest_suite(flavour, suite)
            print(f"  {suite_name(suite)}: {time.monotonic() - start:.0f} s", flush=True)
            if 0 < failed <= SECOND_TRIES:
                self.result.tried.append((self.name, flavour, suite, failed))

    def cache(self, suite):
        """Where pytest notes which cases failed."""
        return os.path.join(OUT, "cache", f"{self.name}-{suite_name(suite)}")

    def pytest_suite(self, flavour, suite, *more):
        """Runs one suite and returns how many of its cases failed."""
        name = suite_name(suite)
        bin_dir = os.path.join(ROOT, "build/bin" if flavour == "release" else f"build/{flavour}/bin")
        env = {"OSB_BIN": bin_dir, "OSB_FLAVOUR": flavour, "PYTHONDONTWRITEBYTECODE": "1"}
        xml = os.path.join(OUT, f"{self.name}-{name}.xml")
        if os.path.exists(xml):
            os.unlink(xml)
        before = self.result.failed
        self.junit(xml, name, self.run(
            [PYTHON, "-m", "pytest", "-q", "-ra", "--tb=short", "-o", f"cache_dir={self.cache(suite)}",
             f"--timeout={0 if self.name in ON_DEMAND else CASE_SECONDS}", "--durations=5", f"--junitxml={xml}", *more, suite], env))
        if self.result.failed > before:
            self.ends.append(os.path.getsize(self.log_path))
        return self.result.failed - before


def suite_name(suite):
    return os.path.relpath(suite, os.path.join(ROOT, "tests")).replace("/", "-")


def suites_below(path):
    """Directories below `path` that hold test files."""
    found = {os.path.dirname(f) for f in glob.glob(os.path.join(ROOT, path, "**", "test_*.py"), recursive=True)}
    return sorted(f for f in found if f != os.path.join(ROOT, "tests/conformance/python"))  # started by the suite above it


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [f for f in out.stdout.split("\n") if f]


def stage_lint(s):
    s.check("room edges", [PYTHON, "tools/check_rooms.py"])
    s.check("style", [PYTHON, "tools/check_style.py"])
    s.check("docs/limits.md", [PYTHON, "tools/gen_limits.py", "--check"])
    s.check("layout (make format)", ["clang-format", "--dry-run", "-Werror", *tracked("*.c", "*.h")])


def stage_build(s):
    for flavour in ("release", "clang", "asan", "fuzz"):
        s.check(flavour, ["tools/build", flavour])
    s.check("docs/configuration.md", [PYTHON, "tools/gen_config.py", "--check"])


def stage_tidy(s):
    if s.check("compile", ["tools/build", "clang"]):
        files = [f for f in tracked("src/**/*.c", "src/*.c")]
        s.check("clang-tidy", ["tools/tidy", *files])


def stage_unit(s):
    if s.check("build", ["tools/build", "asan"]):
        s.meson("asan", ["unit", "corpus"])


def stage_threads(s):
    """The rooms with threads once more, under ThreadSanitizer."""
    if s.check("build", ["tools/build", "tsan"]):
        s.meson("tsan", ["io", "http", "server", "client", "mcp"])


def stage_fuzz(s):
    if not s.check("build", ["tools/build", "fuzz"]):
        return

    def one(exe):
        target = os.path.basename(exe)[len("fuzz_"):]
        corpus = os.path.join(ROOT, "fuzz/corpus", target)
        grown = os.path.join(ROOT, "build/fuzz/corpus", target)
        os.makedirs(grown, exist_ok=True)
        crash = os.path.join(OUT, f"crash-{target}-")
        return target, s.run([exe, f"-max_total_time={s.args.fuzz_seconds}", "-timeout=10", "-rss_limit_mb=2048",
                              "-print_final_stats=0", "-verbosity=0", f"-artifact_prefix={crash}", grown, corpus],
                             timeout=s.args.fuzz_seconds + 120)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for target, code in pool.map(one, sorted(glob.glob(os.path.join(ROOT, "build/fuzz/bin/fuzz_*")))):
            s.count(target, code)


def stage_integration(s):
    if s.check("build", ["tools/build", "release"]):
        s.pytest("release", "tests/integration")


def stage_integration_asan(s):
    """The same programs with ASan and UBSan."""
    if s.check("build", ["tools/build", "asan"]):
        s.pytest("asan", "tests/integration")


def stage_security(s):
    if s.check("build", ["tools/build", "release"]):
        s.pytest("release", "tests/security")


def stage_chaos(s):
    if s.check("build", ["tools/build", "fault"]):
        s.pytest("fault", "tests/chaos")


def stage_conformance(s):
    """Clients as they are published."""
    if s.check("build", ["tools/build", "release"]):
        s.pytest("release", "tests/conformance")


def stage_property(s):
    """Requests made up from the specs, to servers that notice what they do to their memory; execd is always the static one."""
    if s.check("build", ["tools/build", "release"]) and s.check("build with ASan", ["tools/build", "asan"]):
        s.pytest("asan", "tests/property")


def stage_vm(s):
    """On a machine with another kernel and other control groups than this one's."""
    if s.check("build", ["tools/build", "release"]):
        s.pytest("release", "tests/vm")


def stage_soak(s):
    if s.check("build", ["tools/build", "release"]):
        s.pytest("release", "tests/soak")


STAGES = {
    "lint": stage_lint, "build": stage_build, "tidy": stage_tidy, "unit": stage_unit, "threads": stage_threads,
    "fuzz": stage_fuzz, "integration": stage_integration, "integration-asan": stage_integration_asan,
    "security": stage_security, "chaos": stage_chaos, "conformance": stage_conformance, "property": stage_property, "vm": stage_vm,
    "soak": stage_soak,
}
ON_DEMAND = {"soak"}
# These wait more than they compute: two rows of them side by side, so that no suite meets itself.
LANES = (["integration", "conformance", "property", "vm"], ["security", "chaos", "integration-asan"])


def show_failures(stage, lines=60):
    """The end of what each failed suite said, or of the whole log where there are no suites."""
    with open(stage.log_path, "rb") as f:
        log = f.read()
    for end in stage.ends or [len(log)]:
        for line in log[:end].decode(errors="replace").split("\n")[-lines:]:
            print("    " + line)


def run_stage(name, args):
    stage = Stage(name, args)
    print(f"{name} ...", flush=True)
    start = time.monotonic()
    STAGES[name](stage)
    stage.log.close()
    r = stage.result
    with PRINTING:
        print(f"{name}: {r.passed} passed, {r.failed} failed, {r.skipped} skipped in "
              f"{time.monotonic() - start:.0f} s", flush=True)
        if r.failed:
            show_failures(stage)
    return r


def second_try(total, args):
    """Runs what failed in the lanes once more; what passes now was unsteady."""
    for name, flavour, suite, failed in total.tried:
        stage = Stage(name, args, again=True)
        print(f"{name}: {suite_name(suite)} once more ...", flush=True)
        stage.pytest_suite(flavour, suite, "--last-failed", "--last-failed-no-failures", "none")
        stage.log.close()
        r = stage.result
        if r.failed:
            show_failures(stage)
        if r.passed and r.passed + r.failed == failed:
            total.failed -= r.passed
            total.passed += r.passed
            total.notes.append(f"{name}: {r.passed} of the {failed} cases of {suite_name(suite)} that failed passed alone: unsteady")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--only", default="", help="comma-separated stages: " + ", ".join(STAGES))
    ap.add_argument("--fuzz-seconds", type=int, default=4)
    args = ap.parse_args()
    names = [n for n in args.only.split(",") if n] or [n for n in STAGES if n not in ON_DEMAND]
    unknown = [n for n in names if n not in STAGES]
    if unknown:
        ap.error(f"unknown stage {unknown[0]!r}; there are: {', '.join(STAGES)}")

    total = Result()
    lanes = [[n for n in lane if n in names] for lane in LANES]
    for name in names:
        if not any(name in lane for lane in lanes):
            total.add(run_stage(name, args))
    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        for results in pool.map(lambda lane: [run_stage(n, args) for n in lane], lanes):
            for r in results:
                total.add(r)
    second_try(total, args)
    for note in total.notes:
        print(note)
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
