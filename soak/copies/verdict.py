"""What must hold when all is copied, whoever died: one committed copy of each message.

Never trusts a worker's silence: an attempt whose end was not noted may be there or not, but whole.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from soak.copies.notes import Note

__all__ = ["Copy", "Verdict", "check_numbers", "check_order", "judge"]


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
    numbers = [copy.number for copy in copies]
    violations = [*check_numbers(expected, numbers), *_attempts(copies, noted)]
    if is_ordered:
        violations += check_order((copy.key, copy.number) for copy in copies)
    return Verdict(_counts(copies, noted), violations)


def check_numbers(expected: int, numbers: Iterable[int]) -> list[str]:
    """What is lost, there twice, or should not be there; numbers count from 0."""
    found = Counter(numbers)
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


def check_order(copies: Iterable[tuple[str, int]]) -> list[str]:
    """Which numbers of a key come after a higher one."""
    last: dict[str, int] = {}
    violations = []
    for key, number in copies:
        if last.get(key, -1) > number:
            violations.append(f"key {key}: {number} after {last[key]}")
        last[key] = number
    return violations


def _counts(copies: Sequence[Copy], notes: Sequence[Note]) -> dict[str, int]:
    told = Counter(each.what for each in notes)
    return {
        "copies": len(copies),
        "transactions seen": len({copy.attempt for copy in copies}),
        **{f"noted: {what}": told[what] for what in sorted(told)},
    }
