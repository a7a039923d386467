"""Subjects of commits: the rule, the history since it exists, and the hook."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.commits import subject_problems
from tests.tidy.sources import ROOT

# The last commit before the rule was checked.
BEFORE_THE_RULE = "3dda147f8bef9b5174054c3daedd82d2b7be4e3a"

# Others stand on it, so it stays: its subject is four characters too long.
TOO_LONG = "a83cd94fbdaf2871a7fcdc9f3438206d0781b143"


def test_commits_since_the_rule_have_imperative_subjects() -> None:
    """Skipped where there is no history: in an exported tree, and in a shallow clone."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this tree is not a git repository")
    span = f"{BEFORE_THE_RULE}..HEAD"
    listed = subprocess.run(
        [git, "log", "--no-merges", "--format=%H %s", span],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip(f"{BEFORE_THE_RULE[:7]} is not in this clone: {listed.stderr.strip()}")
    wrong = [
        f"{commit} {subject}: {problem}"
        for commit, _, subject in (line.partition(" ") for line in listed.stdout.splitlines())
        if commit != TOO_LONG
        for problem in subject_problems(subject)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "subject",
    [
        "Fix crash when a topic is deleted during a dead-letter move",
        "Bring the glossary up to date",
        "Pass the deadline down to the reader",
        "Embed the version in the wheel",
        f"Add {'x' * 68}",
        f'Revert "Add {"x" * 68}"',
    ],
)
def test_an_imperative_subject_is_accepted(subject: str) -> None:
    assert not subject_problems(subject)


@pytest.mark.parametrize(
    "subject",
    [
        f"Add {'x' * 69}",
        "fix the lag of empty groups",
        "Fixed the lag of empty groups",
        "Fixing the lag of empty groups",
        "Fixes the lag of empty groups",
        "A letter on its way stops no node",
        "What a group has read is kept",
        "WIP",
        "Fix the lag.",
        "Fix the lag ",
        "",
        "42 fixes",
    ],
)
def test_another_subject_is_refused(subject: str) -> None:
    assert subject_problems(subject)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Fix the lag of empty groups\n\nBecause it was wrong.\n", 0),
        ("# a comment of git\nFixed the lag\n", 1),
        ("fixup! Fixed the lag\n", 0),
        ("Merge branch 'main'\n", 0),
        ("# only comments: git aborts by itself\n", 0),
    ],
)
def test_the_hook_judges_the_first_line_that_is_no_comment(
    message: str, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "COMMIT_EDITMSG"
    path.write_text(message)
    checked = subprocess.run(
        [sys.executable, "tests/tidy/commits.py", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == code, checked.stderr
