"""Replays of seeds: the command that shows a failing one again, and runs in another process."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from soak.simulation import WORLDS

__all__ = ["named_when_it_fails", "replay"]


@contextlib.contextmanager
def named_when_it_fails(world: str, seed: int) -> Iterator[None]:
    """Add to any error the command that replays the seed."""
    assert world in WORLDS, "the command would not know this world"
    try:
        yield
    except BaseException as error:
        error.add_note(f"replay: python -m soak.simulation --worlds {world} --seed {seed}")
        raise


def replay(world: str, seed: int, hash_seed: str) -> str:
    """The summary of a seed, run by another process with this seed of Python's own hashes."""
    command = [sys.executable, "-W", "error", "-m", "goqueue.sim", "--world", world]
    command += ["--seed", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]
