"""Known vulnerabilities of the locked packages, as the package index lists them.

    python -m scripts.supply_chain.audit [--index URL] LOCK_FILE...

Exit codes: 0 none is known, 1 some are, 2 the index did not answer for a package. One that was not
looked up is not taken for a good one.
"""

import argparse
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from scripts.supply_chain.lock_files import LockError, Package, locked_packages

__all__ = ["main"]

_INDEX = "https://pypi.org"
_WAIT_S = 30.0
_AT_ONCE_MAX = 8
_ANSWER_BYTES_MAX = 16 * 1024 * 1024


class Vulnerability(msgspec.Struct, frozen=True):
    """One entry of the index; of a withdrawn one the date of that."""

    id: str
    aliases: list[str] = []
    summary: str | None = None
    fixed_in: list[str] = []
    withdrawn: str | None = None


class _Release(msgspec.Struct, frozen=True):
    """What the index knows about one version of a package, as far as it matters here."""

    vulnerabilities: list[Vulnerability]


class Unanswered(Exception):
    """The index gave no answer that could be read."""


def _known(index: str, package: Package) -> list[Vulnerability]:
    url = f"{index}/pypi/{package.name}/{package.version}/json"
    try:
        with urllib.request.urlopen(url, timeout=_WAIT_S) as answer:  # noqa: S310 - the user's index
            release = msgspec.json.decode(answer.read(_ANSWER_BYTES_MAX), type=_Release)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise Unanswered(f"{package.name} {package.version}: {error}") from error
    return [each for each in release.vulnerabilities if each.withdrawn is None]


def _lines(package: Package, known: Sequence[Vulnerability]) -> Iterator[str]:
    for each in known:
        names = ", ".join((each.id, *each.aliases))
        fixed = ", ".join(each.fixed_in) or "no version yet"
        summary = f": {each.summary}" if each.summary else ""
        yield f"{package.name} {package.version}: {names}{summary} (fixed in {fixed})"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default=_INDEX, help="the package index to ask")
    parser.add_argument("files", nargs="+", type=Path, metavar="LOCK_FILE")
    given = parser.parse_args(arguments)
    try:
        packages = locked_packages(given.files)
    except (OSError, LockError) as error:
        print(error, file=sys.stderr)
        return 2
    count = 0
    unanswered: list[str] = []

    def look_up(package: Package) -> list[Vulnerability] | Unanswered:
        try:
            return _known(given.index.rstrip("/"), package)
        except Unanswered as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE_MAX) as threads:
        for package, known in zip(packages, threads.map(look_up, packages), strict=True):
            if isinstance(known, Unanswered):
                unanswered.append(str(known))
                continue
            for line in _lines(package, known):
                count += 1
                print(line)
    for line in unanswered:
        print(f"not looked up: {line}", file=sys.stderr)
    print(f"{len(packages)} packages, {count} vulnerabilities, {len(unanswered)} not looked up")
    return 2 if unanswered else int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
