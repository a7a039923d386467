"""`python bench/grpc/run.py --help`; see `bench/runner.py`."""

import sys
from pathlib import Path

# Python put this file's folder here, where `bench` is not.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench.runner import main  # noqa: E402 - found only now

if __name__ == "__main__":
    main("grpc", *sys.argv[1:])
