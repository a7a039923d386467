"""How the simulator is tried on planted faults: the first seed that notices counts."""

from goqueue.model import Refused
from goqueue.sim import NodeRun, Trace, Violation

__all__ = ["FINDINGS", "first_seed_that_notices"]

# An error that leaves the node or its storage ends the process: that is a finding, too.
FINDINGS = (Violation, AssertionError, Refused, LookupError, OSError, StopIteration)


def first_seed_that_notices(
    seeds: int, *, is_plain: bool = False, has_transactions: bool = True
) -> int | None:
    """The first of so many seeds whose run goes wrong, or None."""
    for seed in range(seeds):
        run = NodeRun(seed, Trace(), is_plain=is_plain, has_transactions=has_transactions)
        try:
            run.live()
        except FINDINGS:
            return seed
    return None
