"""A home of Spark that starts faster than the installed one, for sessions on this machine.

A folder of links to what is installed, without the zipped copy of pyspark: every Python worker
would compile that anew, although the same modules lie compiled beside it. It is also where a local
cluster keeps its logs, which would otherwise go into the installed package.
"""

import contextlib
import hashlib
import os
from pathlib import Path

__all__ = ["lean_home", "make_home"]


def lean_home() -> Path | None:
    """The home of this user and this installation, made at need; None if it cannot be made."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    which = hashlib.sha256(f"{installed} {pyspark.__version__}".encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    try:
        return make_home(Path(cache) / "goqueue" / f"spark-{which}", installed)
    except OSError:
        # Slower, then.
        return None


def make_home(home: Path, installed: Path) -> Path:
    """Make the folder, or complete it."""
    libraries = Path("python", "lib")
    (home / libraries).mkdir(parents=True, exist_ok=True)
    zips = [libraries / each.name for each in (installed / libraries).glob("py4j-*.zip")]
    for place in (Path("bin"), Path("jars"), *zips):
        # Another process may be making the same.
        with contextlib.suppress(FileExistsError):
            (home / place).symlink_to(installed / place)
    return home
