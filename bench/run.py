#!/usr/bin/python3
"""Runs the benchmarks and prints tables of ratios; raw samples go to build/bench/<name>.json.

Each file beside this one that has NAME and run(opts) is a benchmark. Nothing here asserts a time: the
machine is shared, so the ratio to a peer measured in the same minute is the result.

  bench/run.py                    all of them, a few seconds per cell
  bench/run.py --full             longer, more rounds
  bench/run.py http --match 16    one of them, only the cells whose name contains "16"
  bench/run.py reference --full   beside the published reference server; writes docs/benchmarks.md
"""

import argparse
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if p != HERE] + [HERE] # behind the standard library: it has an http too


def benchmarks():
    for name in sorted(os.listdir(HERE)):
        if name.endswith(".py") and name not in ("run.py", "common.py"):
            spec = importlib.util.spec_from_file_location("bench_" + name[:-3], os.path.join(HERE, name))
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            if hasattr(module, "NAME") and hasattr(module, "run"):
                yield module


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", help="which benchmarks; all when none is named")
    p.add_argument("--full", action="store_true")
    p.add_argument("--seconds", type=int, help="per round (2, with --full 10)")
    p.add_argument("--rounds", type=int, help="per cell (3, with --full 6)")
    p.add_argument("--match", help="only cells whose name contains this")
    opts = p.parse_args()
    opts.seconds = opts.seconds or (10 if opts.full else 2)
    opts.rounds = opts.rounds or (6 if opts.full else 3)
    found = {m.NAME: m for m in benchmarks()}
    opts.names = opts.names or sorted(n for n, m in found.items() if not getattr(m, "ON_DEMAND", False))
    for name in opts.names:
        if name not in found:
            p.error(f"no benchmark named {name}; there are: {', '.join(sorted(found))}")
    failed = 0
    for name in opts.names:
        try:
            found[name].run(opts)
        except Exception as e: # one that cannot run here must not keep the others from it
            print(f"\n{name}: {type(e).__name__}: {e}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
