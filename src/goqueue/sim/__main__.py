"""`python -m goqueue.sim`: run seeds, or replay one and show every step."""

import argparse
import sys
import time

from goqueue.sim.oracle import Violation
from goqueue.sim.run import Run
from goqueue.sim.trace import Trace


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m goqueue.sim",
        description="Run the storage engine under a simulated disk that fails.",
    )
    parser.add_argument("--seed", type=int, help="replay this seed")
    parser.add_argument("--seeds", type=int, default=100, help="run this many seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--steps", type=int, default=250, help="length of a run (default 250)")
    parser.add_argument("--verbose", action="store_true", help="show every step")
    options = parser.parse_args()
    if options.seed is not None:
        seeds = [options.seed]
    else:
        seeds = list(range(options.first, options.first + options.seeds))
    started = time.monotonic()
    for seed in seeds:
        trace = Trace(print if options.verbose else None)
        try:
            Run(seed, trace, options.steps).live()
        except Violation as violation:
            print(f"seed {seed}: {violation}", file=sys.stderr)
            replay = f"python -m goqueue.sim --seed {seed} --steps {options.steps} --verbose"
            print(f"replay with: {replay}", file=sys.stderr)
            return 1
        except BaseException:
            print(f"seed {seed}: a bug, told below", file=sys.stderr)
            raise
        if options.seed is not None:
            print(f"seed {seed}: {len(trace)} notes, hash {trace.digest}")
    elapsed = time.monotonic() - started
    print(f"{len(seeds)} seeds without a violation in {elapsed:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
