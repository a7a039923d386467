"""The reference of the options, made of their rows: `python -m goqueue.spark.options.reference`."""

import sys

from goqueue.spark.options.table import OPTIONS, USES, Option

__all__ = ["reference"]

_INTRODUCTION = """\
# Options of `format("goqueue")`

Made from the rows in `src/goqueue/spark/options/table.py` by `make spark-options`; a test compares
the two. Names are read in any case. An option that is unknown, wrong, given for another use, or
that contradicts another one is refused by one error that names it, before any job starts.
"""


def reference() -> str:
    """The page, ending with a newline."""
    uses = ", ".join(f"{short} = {words}" for short, words in USES.items())
    parts = [_INTRODUCTION, f"For: {uses}."]
    for title, options in OPTIONS.items():
        lines = [f"\n## {title}", "", "| Option | For | Default | Meaning |", "|---|---|---|---|"]
        parts += [*lines, *(_line(option) for option in options)]
    return "\n".join(parts) + "\n"


def _line(option: Option) -> str:
    default = option.default or "none"
    meaning = option.meaning.replace("|", "\\|")
    return f"| `{option.name}` | {' '.join(option.uses)} | {default} | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
