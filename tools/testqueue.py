"""How tools/test.py gets its work done: jobs, the queue they wait in, and what is kept of them.

Two jobs run at a time, because suites wait more than they compute. What only computes (compilers, clang-tidy) is a row of its
own beside them, at a low priority: it takes the processors' time that the suites leave.
"""

import os
import signal
import subprocess
import threading
import time
import traceback
import xml.etree.ElementTree as ET

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "test")
PRINTING = threading.Lock()
WORKERS = 2
LOW = "5"  # about a third of the time that a suite gets when both want it
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

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.notes += other.notes


class Job:
    """A part of a stage. `work(job)` runs its commands and counts into its result. It begins when the flavours it `needs` are
    built, and waits while another job of the same `place` runs; a job that `builds` a flavour lets others begin."""

    def __init__(self, stage, name, work, needs=(), place=None, builds=None, computes=False):
        self.stage, self.name, self.work = stage, name, work
        self.needs, self.place, self.builds, self.computes = needs, place, builds, computes
        self.result = Result()
        self.seconds = 0
        self.log_path = os.path.join(OUT, "parts", f"{stage}-{name}.log")
        self.process = None
        self.low = False

    def go(self, missing=(), low=False):
        """Does the work, unless something it needs could not be built."""
        self.low = low
        os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
        start = time.monotonic()
        with open(self.log_path, "w") as self.log:
            try:
                if missing:
                    self.log.write(f"not built: {', '.join(missing)}\n")
                    self.count(f"{self.name}: {', '.join(missing)} could not be built;", 1)
                else:
                    self.work(self)
            except Exception:
                self.log.write(traceback.format_exc())
                self.count(self.name, 1)
        self.seconds = time.monotonic() - start

    def run(self, cmd, env=None, timeout=2400):
        line = " ".join(cmd)
        self.log.write("$ " + (line if len(line) < 400 else line[:400] + " ...") + "\n")
        self.log.flush()
        full = dict(os.environ, **SANITIZERS, **(env or {}))
        p = subprocess.Popen(["nice", "-n", LOW, *cmd] if self.low else cmd, cwd=ROOT, env=full, stdin=subprocess.DEVNULL,
                             stdout=self.log, stderr=subprocess.STDOUT, start_new_session=self.low)
        if self.low:
            self.process = p
            step_back(p.pid)
        try:
            return p.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            p.kill()
            p.wait()
            self.log.write(f"timed out after {timeout} s\n")
            return 124

    def stop(self):
        """What has a low priority is in a session of its own, where Ctrl-C does not reach it."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)

    def check(self, what, cmd, env=None, timeout=2400):
        """One command, one result."""
        return self.count(what, self.run(cmd, env, timeout))

    def count(self, what, code):
        if code == 0:
            self.result.passed += 1
            return True
        self.result.failed += 1
        self.result.notes.append(f"{self.stage}: {what} failed")
        return False

    def junit(self, path, what, code):
        """Counts the cases of a JUnit file; a run that wrote none counts as one failure."""
        r = self.result
        if not os.path.exists(path):
            r.failed += 1
            r.notes.append(f"{self.stage}: {what} wrote no results (exit {code})")
            return
        failed_before = r.failed
        for case in ET.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname') or what}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                r.failed += 1
                r.notes.append(f"{self.stage}: {name} failed")
            elif case.find("skipped") is not None:
                r.skipped += 1
                reason = case.find("skipped").get("message") or "no reason given"
                r.notes.append(f"{self.stage}: {name} skipped: {reason}")
            else:
                r.passed += 1
        if code not in (0, 5) and r.failed == failed_before:
            r.failed += 1
            r.notes.append(f"{self.stage}: {what} ended with exit {code}")

    def keep_log(self):
        with open(os.path.join(OUT, self.stage + ".log"), "a") as out, open(self.log_path, errors="replace") as log:
            out.write(log.read())

    def show_end(self, lines=60):
        with open(self.log_path, "rb") as f:
            for line in f.read().decode(errors="replace").split("\n")[-lines:]:
                print("    " + line)


def step_back(pid):
    """Where the kernel shares time among sessions first, nice(1) orders only what is inside one."""
    try:
        with open(f"/proc/{pid}/autogroup", "w") as f:
            f.write(LOW)
    except OSError:
        pass


class Queue:
    """Runs jobs in the order given, as far as what they need and their places allow."""

    def __init__(self, jobs):
        self.jobs, self.waiting, self.running = jobs, list(jobs), []
        self.built = {}  # flavour: whether that worked
        self.changed = threading.Condition()

    def ready(self, job):
        return job in self.waiting and all(n in self.built for n in job.needs) and not any(job.place and job.place == r.place for r in self.running)

    def worker(self, computes):
        while True:
            with self.changed:
                mine = [j for j in self.waiting if j.computes == computes]
                if not mine:
                    return
                job = next((j for j in mine if self.ready(j)), None)
                if not job:
                    self.changed.wait()
                    continue
                self.waiting.remove(job)
                low = computes and any(not j.computes and (j in self.running or self.ready(j)) for j in self.jobs)
                self.running.append(job)
            job.go([n for n in job.needs if not self.built[n]], low)
            with self.changed:
                self.running.remove(job)
                if job.builds:
                    self.built[job.builds] = job.result.failed == 0
                self.told(job)
                self.changed.notify_all()

    def told(self, job):
        """Says what came of a job, and of its stage when it was the last one there."""
        parts = [j for j in self.jobs if j.stage == job.stage]
        with PRINTING:
            job.keep_log()
            if len(parts) > 1:
                print(f"  {job.stage} {job.name}: {job.seconds:.0f} s", flush=True)
            if job.result.failed:
                job.show_end()
            if not any(j in self.waiting or j in self.running for j in parts):
                total = Result()
                for j in parts:
                    total.add(j.result)
                print(f"{job.stage}: {total.passed} passed, {total.failed} failed, {total.skipped} skipped in "
                      f"{sum(j.seconds for j in parts):.0f} s", flush=True)

    def run(self):
        os.makedirs(OUT, exist_ok=True)
        for stage in {j.stage for j in self.jobs}:
            open(os.path.join(OUT, stage + ".log"), "w").close()
        workers = [threading.Thread(target=self.worker, args=[computes]) for computes in (True, *[False] * WORKERS)]
        for w in workers:
            w.start()
        try:
            for w in workers:
                w.join()
        except KeyboardInterrupt:
            with self.changed:
                self.waiting.clear()
                for job in self.running:
                    job.stop()
                self.changed.notify_all()
            raise
