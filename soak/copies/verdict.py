"""What must hold when all is copied, whoever died: one committed copy of each message.

Never trusts a worker's silence: an attempt whose end was not noted may be there or not, but whole.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from soak.copies.notes import Note

__all__ = ["Copy", "Verdict", "judge"]


class Copy(msgspec.Struct, frozen=True):
    """A message that readers of committed messages find in the target."""

    number: int
    key: str
    attempt: str


class Verdict(msgspec.Struct, frozen=True):
    """What was counted, and what is wrong."""

    counts: dict[str, int]
    violations: list[str]


def judge(
    expected: int, copies: Sequence[Copy], notes: Iterable[Note], *, is_ordered: bool
) -> Verdict:
    """Copies are in the order of each partition; with `is_ordered` that of each key is checked."""
    noted = list(notes)
    violations = [*_numbers(expected, copies), *_attempts(copies, noted)]
    if is_ordered:
        violations += _order(copies)
    return Verdict(_counts(copies, noted), violations)


def _numbers(expected: int, copies: Sequence[Copy]) -> list[str]:
    found = Counter(copy.number for copy in copies)
    lost = [f"lost: {number}" for number in range(expected) if not found[number]]
    alien = [f"unexpected: {number}" for number in found if not 0 <= number < expected]
    twice = [f"{times} copies of {number}" for number, times in found.items() if times > 1]
    return [*lost, *alien, *twice]


def _attempts(copies: Sequence[Copy], notes: Sequence[Note]) -> list[str]:
    found = Counter(copy.attempt for copy in copies)
    filled = {each.attempt: each.count for each in notes if each.what == "filled"}
    violations = []
    for attempt, count in found.items():
        if attempt not in filled:
            violations.append(f"attempt {attempt} was never complete and is seen")
        elif filled[attempt] != count:
            violations.append(f"attempt {attempt}: {count} of {filled[attempt]} are seen")
    for each in notes:
        if each.what == "committed" and each.attempt not in found:
            violations.append(f"attempt {each.attempt} was committed and is not seen")
        if each.what == "aborted" and each.attempt in found:
            violations.append(f"attempt {each.attempt} was aborted and is seen")
    return violations


def _order(copies: Sequence[Copy]) -> list[str]:
    last: dict[str, int] = {}
    violations = []
    for copy in copies:
        if last.get(copy.key, -1) > copy.number:
            violations.append(f"key {copy.key}: {copy.number} after {last[copy.key]}")
        last[copy.key] = copy.number
    return violations


def _counts(copies: Sequence[Copy], notes: Sequence[Note]) -> dict[str, int]:
    told = Counter(each.what for each in notes)
    return {
        "copies": len(copies),
        "transactions seen": len({copy.attempt for copy in copies}),
        **{f"noted: {what}": told[what] for what in sorted(told)},
    }
