"""Makes everything run from its sources although compiled modules lie beside some of them.

Outside the rooms, because it reads the environment. `GOQUEUE_NO_EXTENSIONS=1` is for tests,
for debugging, and for a machine whose extensions are not to be trusted.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

VARIABLE = "GOQUEUE_NO_EXTENSIONS"
PACKAGE = "goqueue."


class SourcesOnly:
    """A finder that sees only source files."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(PACKAGE):
            return None
        for folder in path or ():
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None:
                return spec
        return None


def prefer_sources() -> None:
    """Do so for this process, if the environment asks for it."""
    if os.environ.get(VARIABLE, "0") not in {"", "0"}:
        sys.meta_path.insert(0, SourcesOnly())
