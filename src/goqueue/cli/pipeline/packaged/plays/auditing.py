"""Findings as a command shows them; what is not clean ends with exit code 1."""

from collections.abc import Mapping, Sequence
from typing import Any

from goqueue.cli.asking import draw
from goqueue.cli.output import Output
from goqueue.cli.pipeline.packaged.plays.endeavour import endeavour, is_drawn, write_result
from goqueue.pipelines.packaged import OptionWrong
from goqueue.pipelines.packaged.audit import (
    AuditOptions,
    CopyFindings,
    CopyOptions,
    Findings,
    audit,
    audit_copy,
)

__all__ = ["expectations", "run_audit"]

_NAME = "audit"
CLEAN = 0
WRONG = 1
_NUMBERED = ("sequence", "producer", "first", "expected")


def run_audit(given: Mapping[str, Any], master: str, output: Output) -> int:
    with endeavour(_NAME, master) as run:
        fields = {**given, "wiring": run.wiring}
        if given["against"] is not None:
            copied = _copy_options(fields)
            with run.spark() as spark:
                return _show_copy(audit_copy(spark, copied), output)
        for name in ("against", "target_identity"):
            if fields.pop(name) is not None:
                raise OptionWrong("--target-id", "goes with --against")
        options = AuditOptions(**{**fields, "expected": expectations(given["expected"])})
        with run.spark() as spark:
            return _show(audit(spark, options), output)


def expectations(texts: Sequence[str]) -> dict[str, int]:
    """`PRODUCER=N` of the command line."""
    found = {}
    for text in texts:
        name, equals, count = text.rpartition("=")
        if not equals or not count.isdigit():
            raise OptionWrong("--expected", f"{text!r} is not PRODUCER=N")
        found[name] = int(count)
    return found


def _copy_options(fields: dict[str, Any]) -> CopyOptions:
    for name in _NUMBERED:
        if fields.pop(name) not in {None, ()}:
            raise OptionWrong(f"--{name}", "does not go with --against")
    if fields["identity"] is None:
        del fields["identity"]
    return CopyOptions(**fields)


def _show(found: Findings, output: Output) -> int:
    if not is_drawn(output):
        write_result(_NAME, {**_fields(found), "is_clean": found.is_clean}, output)
    else:
        if found.troubled:
            rows = [
                (each.producer, each.rows, each.missing, each.duplicates, each.disorders)
                for each in found.troubled
            ]
            headings = ("PRODUCER", "ROWS", "MISSING", "DUPLICATES", "OUT OF ORDER")
            draw(headings, rows, empty="")
        gaps = [(gap.producer, gap.first, gap.last) for gap in found.gaps]
        if gaps:
            draw(("MISSING OF", "FIRST", "LAST"), gaps, empty="")
        for heading, places in (
            ("DUPLICATE", found.duplicate_rows),
            ("OUT OF ORDER", found.disordered_rows),
        ):
            if places:
                shown = [(at.producer, at.sequence, f"{at.partition}:{at.offset}") for at in places]
                draw((heading, "NUMBER", "PLACE"), shown, empty="")
        for name in found.absent:
            print(f"nothing of producer {name}")
        word = "clean" if found.is_clean else "NOT CLEAN"
        print(
            f"{word}: {found.rows:,} rows of {found.producers:,} producers; "
            f"{found.missing:,} missing, {found.duplicates:,} duplicates, "
            f"{found.disorders:,} out of order, {found.unreadable:,} unreadable"
        )
    return CLEAN if found.is_clean else WRONG


def _show_copy(found: CopyFindings, output: Output) -> int:
    if not is_drawn(output):
        write_result(_NAME, {**_fields(found), "is_clean": found.is_clean}, output)
    else:
        if found.differences:
            rows = [(each.identity, each.in_source, each.in_target) for each in found.differences]
            draw(("ROW", "IN SOURCE", "IN COPY"), rows, empty="")
        if found.disordered:
            draw(("OUT OF ORDER",), [(each,) for each in found.disordered], empty="")
        word = "clean" if found.is_clean else "NOT CLEAN"
        print(
            f"{word}: {found.source_rows:,} rows, {found.target_rows:,} in the copy; "
            f"{found.missing:,} missing, {found.surplus:,} too many, "
            f"{found.disorders:,} out of order, {found.unreadable:,} unreadable"
        )
    return CLEAN if found.is_clean else WRONG


def _fields(found: Findings | CopyFindings) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}
