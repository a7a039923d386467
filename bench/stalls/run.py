"""Entry of the bench: `make bench-stalls`, or `python bench/stalls/run.py --help`.

One JSON line per figure goes to stdout, a summary for people to stderr.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    # Python put this file's folder here, where `bench` and `goqueue` are not.
    sys.path[0] = str(ROOT)
    sys.path.insert(1, str(ROOT / "src"))
    from bench.stalls.suite import bench

    bench()


if __name__ == "__main__":
    main()
