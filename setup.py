"""Build of what is compiled: the records room, and the loop over many timers; and the note of
which commit was built, which a node tells without asking git.

Everything else about the package is in pyproject.toml.

The extensions are optional: without a C compiler the same sources run interpreted.
"""

import datetime as dt
import json
import os
import subprocess
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup  # type: ignore[import-untyped]  # has no types

ROOT = Path(__file__).resolve().parent
BUILD_NOTE = ROOT / "src/goqueue/build.json"

RECORDS = "src/goqueue/records"
COMPILED = (
    *(
        f"goqueue.records.{name}"
        for name in ("batch", "columns", "cursor", "hops", "record", "routing")
    ),
    *(f"goqueue.records.arrow.{name}" for name in ("lift", "press", "sheet")),
    *(f"goqueue.records.tracing.{name}" for name in ("given", "made")),
    "goqueue.delivery.wheel.sieve",
    "goqueue.model.digits",
)

extensions = [
    Extension(
        name,
        [f"src/{name.replace('.', '/')}.py"],
        include_dirs=[RECORDS],
        depends=[f"{RECORDS}/castagnoli.h", f"{RECORDS}/octets.h"],
        extra_compile_args=["-O3"],
        optional=True,
    )
    for name in COMPILED
]

built = cythonize(  # type: ignore[no-untyped-call]  # Cython is annotated in part
    extensions,
    build_dir="build/cython",
    language_level=3,
    # The C types are in the .pxd files; the annotations in the sources are for people.
    compiler_directives={"annotation_typing": False, "binding": True},
    nthreads=os.cpu_count() or 1,
)
for extension in built:
    # cythonize() makes new Extension objects and forgets that these may fail to build.
    extension.optional = True


def note_build() -> None:
    """Write down the commit and the time; a source distribution brings its note along."""
    if not (ROOT / ".git").exists():
        # An enclosing repository is not ours.
        return
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],  # noqa: S607 - whichever git built it
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    built_at = dt.datetime.now(dt.UTC)
    if seconds:
        built_at = dt.datetime.fromtimestamp(int(seconds), dt.UTC)
    note = {"commit": asked.stdout.strip(), "time": f"{built_at:%Y-%m-%dT%H:%M:%SZ}"}
    BUILD_NOTE.write_text(json.dumps(note) + "\n")


note_build()
setup(ext_modules=built, options={"build_ext": {"parallel": os.cpu_count() or 1}})
