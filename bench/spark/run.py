"""Entry of the bench: `make bench-spark`, or `python bench/spark/run.py --help`.

One JSON line per figure goes to stdout.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    # Python put this file's folder here, where `bench` and `goqueue` are not.
    sys.path[0] = str(ROOT)
    sys.path.insert(1, str(ROOT / "src"))
    from bench.spark.suite import bench

    bench()


if __name__ == "__main__":
    main()
