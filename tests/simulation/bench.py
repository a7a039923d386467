"""How seeds are run: the first that notices a planted fault counts; one that fails is named."""

import contextlib
from collections.abc import Iterator

from goqueue.model import Refused
from goqueue.sim import NodeRun, Trace, Violation

__all__ = ["FINDINGS", "first_seed_that_notices", "named_when_it_fails"]

# An error that leaves the node or its storage ends the process: that is a finding, too.
FINDINGS = (Violation, AssertionError, Refused, LookupError, OSError, StopIteration)


def first_seed_that_notices(
    seeds: int, *, first: int = 0, is_plain: bool = False, has_transactions: bool = True
) -> int | None:
    """The first of so many seeds, from `first` on, whose run goes wrong, or None."""
    for seed in range(first, first + seeds):
        run = NodeRun(seed, Trace(), is_plain=is_plain, has_transactions=has_transactions)
        try:
            run.live()
        except FINDINGS:
            return seed
    return None


@contextlib.contextmanager
def named_when_it_fails(world: str, seed: int) -> Iterator[None]:
    """Whatever goes wrong in here says how to see it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"replay: python -m soak.simulation --worlds {world} --seed {seed}")
        raise
