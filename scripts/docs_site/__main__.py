"""`python -m scripts.docs_site [FOLDER]`: build the site and check its links."""

import sys
from pathlib import Path

from scripts.docs_site.links import finds_broken_links
from scripts.docs_site.markdown import PageInvalid
from scripts.docs_site.pages import ROOT, Tree
from scripts.docs_site.site import build


def main(arguments: list[str]) -> int:
    """Build into the folder that is named, or build/site; 1 if anything is wrong with it."""
    folder = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    try:
        pages = build(Tree(), folder)
    except PageInvalid as invalid:
        print(f"docs: {invalid}", file=sys.stderr)
        return 1
    faults = list(finds_broken_links(folder))
    for fault in faults:
        print(f"docs: {fault}", file=sys.stderr)
    if not faults:
        print(f"docs: {len(pages)} pages in {folder}; open {folder / 'index.html'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
