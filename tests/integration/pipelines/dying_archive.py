"""`goqueue pipeline run archive` that dies while it puts the files of its second batch in place.

Run as a program: `dying_archive URL FOLDER TOPIC TOPIC`. The process ends without a word before the
second file of that batch gets its name, with Java left behind to notice that it is alone.
"""

import os
import sys
from pathlib import Path

from goqueue.cli import main as enter

DIED = 77
RENAME = "replace"


def main(url: str, folder: str, *topics: str) -> None:
    renamed = 0
    rename = getattr(os, RENAME)

    def replace(source: str | Path, target: str | Path) -> None:
        nonlocal renamed
        if str(target).endswith(".parquet"):
            renamed += 1
            if renamed == 4:
                os._exit(DIED)
        rename(source, target)

    setattr(os, RENAME, replace)
    named = [part for topic in topics for part in ("--topic", topic)]
    command = ["goqueue", "pipeline", "run", "archive", *named, "--to", folder, "--once"]
    sys.argv = [*command, "--batch-size", "1", "--master", "local[2]", "--server", url]
    enter()


if __name__ == "__main__":
    main(*sys.argv[1:])
