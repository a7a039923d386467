"""Writes what is generated from proto/: `python -m scripts.protocol`."""

import sys

from scripts.protocol.proto_rules import (
    facts_of,
    finds_breaks_of_baseline,
    read_baseline,
    written_baseline,
)
from scripts.protocol.python_writer import BASELINE, ROOT, outputs, proto_files


def main() -> None:
    """Add to the baseline, unless that breaks, and write the outputs."""
    files, baseline = proto_files(), ROOT / BASELINE
    known = read_baseline(baseline.read_text(encoding="utf-8")) if baseline.exists() else {}
    if broken := list(finds_breaks_of_baseline(known, files)):
        sys.exit("\n".join(broken))
    for path, text in {BASELINE: written_baseline(facts_of(files)), **outputs()}.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
