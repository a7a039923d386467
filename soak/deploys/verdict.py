"""Whether every message was handled as often as promised, from what the workers noted.

Pure: told the notes of every process, which processes were killed, and what was published.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

__all__ = ["GROUP", "TOPICS", "Note", "Verdict", "judge", "read_notes"]

GROUP = "deployed"
TOPICS = ("tasks", "threads")


class Note(msgspec.Struct, frozen=True):
    """One line of a worker: it begins a message, or has done it."""

    word: str
    value: str
    delivery: int


class Verdict(msgspec.Struct, frozen=True):
    violations: list[str]
    counts: dict[str, int]


def read_notes(lines: Iterable[str]) -> list[Note]:
    """The notes of one process; the last line of a killed one may be cut."""
    found = []
    for line in lines:
        words = line.split(" ")
        if line.endswith("\n") and len(words) == 3:
            found.append(Note(words[0], words[1], int(words[2])))
    return found


def judge(
    published: Sequence[str],
    notes: Mapping[int, Sequence[Note]],
    killed: frozenset[int],
    *,
    dead_letters: int,
) -> Verdict:
    """Judge the notes of processes by their ids."""
    begun: dict[str, list[tuple[int, int]]] = defaultdict(list)
    done: Counter[str] = Counter()
    violations: list[str] = []
    for process, noted in notes.items():
        open_here = Counter[str]()
        for note in noted:
            if note.word == "begin":
                begun[note.value].append((process, note.delivery))
                open_here[note.value] += 1
            else:
                done[note.value] += 1
                open_here[note.value] -= 1
        if process not in killed:
            left = [value for value, count in open_here.items() if count]
            violations += [f"{value} was begun and not finished by {process}" for value in left]
    for value in published:
        violations += _violations_of(value, begun.get(value, []), done[value], killed)
    violations += [f"{value} was never published" for value in begun.keys() - set(published)]
    if dead_letters:
        violations.append(f"{dead_letters} dead letters, and no handler has failed")
    repeats = sum(len(each) - 1 for each in begun.values())
    counts = {"published": len(published), "handled": done.total(), "begun again": repeats}
    return Verdict(violations, {**counts, "processes": len(notes), "killed": len(killed)})


def _violations_of(
    value: str, begun: list[tuple[int, int]], done: int, killed: frozenset[int]
) -> list[str]:
    if not done:
        return [f"{value} was lost"]
    by_killed = sum(process in killed for process, _ in begun)
    found = []
    if len(begun) - by_killed > 1:
        found.append(f"{value} was begun by {[process for process, _ in begun]}")
    # A killed worker also had messages that waited for their turn: those count, too.
    if max(delivery for _, delivery in begun) > 1 + len(killed):
        found.append(f"{value}: a delivery was counted that nobody began")
    return found
