"""A seed that fails is named, with the command that shows it again."""

import contextlib
from collections.abc import Iterator

__all__ = ["named_when_it_fails"]


@contextlib.contextmanager
def named_when_it_fails(world: str, seed: int) -> Iterator[None]:
    """Whatever goes wrong in here says how to see it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"replay: python -m soak.simulation --worlds {world} --seed {seed}")
        raise
