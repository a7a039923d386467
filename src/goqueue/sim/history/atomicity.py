"""Checkers of transactions: all of one or nothing, messages and the progress of groups alike."""

from collections.abc import Iterator

from goqueue.sim.history.evidence import Evidence, Trial

__all__ = [
    "copied_twice",
    "delivered_while_held",
    "passed_while_open",
    "torn_groups",
    "torn_progress",
    "torn_transactions",
    "uncopied",
    "wrong_stands",
]


def torn_transactions(evidence: Evidence) -> Iterator[str]:
    """A part of a transaction was seen as committed, and another part is missing at the end."""
    starts = evidence.starts()
    for (reader, log), contents in evidence.finals.items():
        present = set(contents.values())
        for trial in evidence.trials.values():
            if not any(value in evidence.committed for value in trial.values):
                continue
            for value in trial.values:
                taken = evidence.sends[value].taken
                if taken is None or taken[0] != log or taken[1] < starts[log]:
                    continue
                if value not in present:
                    yield f"{reader} sees parts of transaction {trial.number}, not {value}"


def torn_groups(evidence: Evidence) -> Iterator[str]:
    """A group commit committed some of its transactions and not others."""
    for trial in evidence.trials.values():
        for group in trial.groups:
            fates = {number: _fate(evidence, evidence.trials[number]) for number in group}
            is_only_way = all(len(evidence.trials[number].commits_asked) == 1 for number in group)
            if is_only_way and {True, False} <= set(fates.values()):
                yield f"transactions that belong together ended as {fates}"


def _fate(evidence: Evidence, trial: Trial) -> bool | None:
    """Whether a transaction was committed, as far as clients can tell."""
    if trial.is_commit is not None:
        return trial.is_commit
    if any(value in evidence.committed for value in trial.values):
        return True
    finals = evidence.final_values
    logs = {log for _, log in evidence.finals}
    starts = evidence.starts()
    for value in trial.values:
        taken = evidence.sends[value].taken
        is_readable = taken is not None and taken[0] in logs and taken[1] >= starts[taken[0]]
        if is_readable and value not in finals:
            return False
    return None


def torn_progress(evidence: Evidence) -> Iterator[str]:
    """Messages of a transaction were committed without its offsets or acks, or the reverse."""
    for trial in evidence.trials.values():
        fate = _fate(evidence, trial)
        for at, move in trial.moves:
            if fate is None or move.log in evidence.gone or move.log in evidence.shaken:
                continue
            for offset in move.offsets:
                again = any(
                    time > at
                    and (each.group, each.log, each.offset) == (move.group, move.log, offset)
                    for time, each in evidence.deliveries
                )
                if fate and again:
                    yield f"{move.group} got {move.log}:{offset} again after {trial.number}"


def wrong_stands(evidence: Evidence) -> Iterator[str]:
    """The offset of a group that only transactions move is one that none committed, or fell."""
    highest: dict[tuple[str, str], int] = {}
    known: dict[str, list[int]] = {}
    for value in evidence.committed:
        for log, offset in evidence.places.get(value, {}):
            known.setdefault(log, []).append(offset)
    for at, stood in evidence.stands:
        if stood.log in evidence.gone or stood.log in evidence.shaken:
            continue
        key = (stood.group, stood.log)
        floors = {0}
        for trial in evidence.trials.values():
            if trial.may_commit and trial.commits_asked[0] < at:
                floors.update(
                    move.floor
                    for _, move in trial.moves
                    if (move.group, move.log) == key and move.floor
                )
        below = max((floor for floor in floors if floor <= stood.floor), default=0)
        # Past what is no message a group may be put by itself.
        if any(below <= offset < stood.floor for offset in known.get(stood.log, ())):
            yield f"{stood.group} stands at {stood.log}:{stood.floor}, not at one of {floors}"
        if stood.floor < highest.get(key, 0):
            yield f"{stood.group} went back to {stood.log}:{stood.floor} from {highest[key]}"
        highest[key] = max(stood.floor, highest.get(key, 0))


def passed_while_open(evidence: Evidence) -> Iterator[str]:
    """The last stable offset passed a message of a transaction that was not decided."""
    firsts: dict[str, list[tuple[int, Trial]]] = {}
    for trial in evidence.trials.values():
        for value in trial.values:
            for log, offset in evidence.places.get(value, {}):
                firsts.setdefault(log, []).append((offset, trial))
    for at, poll in evidence.polls:
        for offset, trial in firsts.get(poll.log, ()):
            is_known = any(
                when < at
                for value in trial.values
                for place, when in evidence.places.get(value, {}).items()
                if place == (poll.log, offset)
            )
            if is_known and at < trial.open_at and poll.stable > offset:
                yield (
                    f"{poll.log} was stable up to {poll.stable} while transaction"
                    f" {trial.number} was open at {offset}"
                )


def delivered_while_held(evidence: Evidence) -> Iterator[str]:
    """A message was delivered while an open transaction held it."""
    held: dict[tuple[str, str, int], list[tuple[int, Trial]]] = {}
    for trial in evidence.trials.values():
        for at, move in trial.moves:
            for offset in move.offsets:
                held.setdefault((move.group, move.log, offset), []).append((at, trial))
    for at, delivered in evidence.deliveries:
        key = (delivered.group, delivered.log, delivered.offset)
        for since, trial in held.get(key, ()):
            if since < at < trial.open_at:
                yield f"{key} was delivered while transaction {trial.number} held it"


def copied_twice(evidence: Evidence) -> Iterator[str]:
    """Workers that copy in transactions left more than one committed copy of a message."""
    for (group, source), values in evidence.copies.items():
        committed = [value for value in values if value in evidence.committed]
        if len(committed) > 1:
            yield f"{group} copied {source} as {committed}"


def uncopied(evidence: Evidence) -> Iterator[str]:
    """Workers found nothing left to copy, but a message has no committed copy."""
    finals = evidence.finals
    for drained in evidence.drained:
        for (_, log), contents in finals.items():
            if log != drained.log:
                continue
            for offset, value in contents.items():
                if offset >= evidence.shaken.get(log, offset + 1):
                    # It may have come, or come again, after the workers were done.
                    continue
                key = (drained.group, f"{log}:{offset}={value}")
                copies = evidence.copies.get(key, ())
                is_copied = any(each in evidence.committed for each in copies)
                if not is_copied and key not in evidence.died:
                    yield f"{drained.group} has no copy of {value} at {log}:{offset}"
