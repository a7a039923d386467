"""The rule for commit subjects: imperative, capitalised, at most 72 characters.

Run as a script with the path of a commit message, it is the hook that `make hooks` installs. It
uses only the standard library, because a hook runs outside the virtual environment.

English has no test for the imperative. The first word is compared with the forms that people write
instead of it: past tense, -ing, third person, and words that begin a noun phrase or a clause.
"""

import re
import sys
from pathlib import Path

__all__ = ["subject_problems"]

SUBJECT_CHARS_MAX = 72

_AUTOSQUASH = ("fixup! ", "squash! ", "amend! ")
_REVERT = 'Revert "'
_FIRST_WORD = re.compile(r"[A-Za-z]+")
# Verbs that look like one of the other forms.
_VERBS = re.compile(
    "alias|bias|bleed|breed|bring|canvas|cling|embed|exceed|feed|fling|focus|heed|need|ping|proceed"
    "|ring|seed|shed|shred|sling|speed|spring|sting|string|succeed|swing|weed|wring"
)
_NO_VERBS = re.compile(
    "an?|and|any|are|both|by|each|every|for|from|how|if|in|is|its?|more|new|no|nobody|not|of|on"
    "|once|one|only|or|our|some|such|that|the|their|there|these|they|this|those|to|two|was|we|what"
    "|when|where|which|who|whoever|with|wip|your?"
)


def subject_problems(subject: str) -> list[str]:
    """What is wrong with a subject line; empty when nothing is."""
    problems: list[str] = []
    if len(subject) > SUBJECT_CHARS_MAX and not subject.startswith(_REVERT):
        problems.append(f"{len(subject)} characters; the limit is {SUBJECT_CHARS_MAX}")
    if subject != subject.strip() or subject.endswith("."):
        problems.append("no space around it and no full stop at its end")
    first = _FIRST_WORD.match(subject)
    if first is None or not first[0][0].isupper():
        problems.append("begins with a capitalised verb")
    elif not _is_imperative(first[0].lower()):
        problems.append(f"begins with a verb in the imperative, not with {first[0]!r}")
    return problems


def _is_imperative(word: str) -> bool:
    if _VERBS.fullmatch(word):
        return True
    is_third_person = word.endswith("s") and not word.endswith("ss")
    return not (_NO_VERBS.fullmatch(word) or word.endswith(("ed", "ing")) or is_third_person)


def main() -> int:
    """Check the message that git is about to commit."""
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    subject = next((line for line in lines if line and not line.startswith("#")), "")
    if not subject or subject.startswith((*_AUTOSQUASH, "Merge ")):
        return 0
    problems = subject_problems(subject)
    for problem in problems:
        sys.stderr.write(f"commit subject: {problem} (CONTRIBUTING.md, Commit messages)\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
