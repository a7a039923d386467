"""Build of the compiled modules, and of the note of which commit was built.

Everything else about the package is in pyproject.toml.

A build has all extensions or none. It has none, and the wheel serves every Python and machine, when
`GOQUEUE_NO_EXTENSIONS=1` is set or when no C compiler finds `Python.h`; the same sources then run
interpreted. With a working compiler, an extension that does not build is an error.
"""

import datetime as dt
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup  # type: ignore[import-untyped]  # has no types

ROOT = Path(__file__).resolve().parent
BUILD_NOTE = ROOT / "src/goqueue/build.json"
PROCESSES = os.cpu_count() or 1

RECORDS = "src/goqueue/records"
RUNTIME = "src/goqueue/runtime"
COMPILED = (
    *(
        f"goqueue.records.{name}"
        for name in (
            "batch",
            "columns",
            "cursor",
            "header_scan",
            "json_messages",
            "json_text",
            "record",
            "record_finder",
            "routing",
            "traceparent",
        )
    ),
    *(f"goqueue.records.arrow.{name}" for name in ("input", "reader", "writer")),
    "goqueue.delivery.offset_blocks",
    "goqueue.delivery.wheel.sieve",
    "goqueue.gateways.receipts",
    "goqueue.model.digits",
    "goqueue.runtime.file_commits",
    "goqueue.schemas.avro_walk",
)
# Cython's own code for typed memory views, once for all: compiling it into each took half the time.
SHARED = "goqueue._cyutility"
# Debug information is most of an extension's size and a third of the time to compile it; names of
# local symbols are an eighth of the rest.
FLAGS = ["-O3", "-g0"]
LINK_FLAGS = ["-s"] if sys.platform == "linux" else []


def find_compiler() -> str | None:
    """The first C compiler that finds Python's headers: the caller's, or Python's own, or any."""
    default = sysconfig.get_config_var("CC") or "cc"
    chosen = os.environ.get("CC")
    for compiler in [chosen] if chosen else [default, "cc", "clang"]:
        command = [*compiler.split(), "-fsyntax-only", "-x", "c", "-"]
        command.append("-I" + sysconfig.get_path("include"))
        try:
            subprocess.run(  # noqa: S603 - the caller's compiler
                command, input=b"#include <Python.h>\n", capture_output=True, check=True, timeout=60
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return compiler
    return None


def extensions() -> list[Extension]:
    """All extensions, translated to C; none where they cannot or must not be built."""
    if os.environ.get("GOQUEUE_NO_EXTENSIONS", "0") not in {"", "0"}:
        return []
    compiler = find_compiler()
    if compiler is None:
        print("goqueue: no C compiler finds Python.h: building without extensions")
        return []
    os.environ["CC"] = compiler
    # Needed for nothing else: a build without extensions works without Cython.
    from Cython.Build import cythonize

    built: list[Extension] = cythonize(  # type: ignore[no-untyped-call]  # Cython is annotated in part
        [
            Extension(SHARED, [], extra_compile_args=FLAGS, extra_link_args=LINK_FLAGS),
            *(
                Extension(
                    name,
                    [f"src/{name.replace('.', '/')}.py"],
                    include_dirs=[RECORDS, RUNTIME],
                    depends=[
                        *(f"{RECORDS}/{name}.h" for name in ("castagnoli", "json_text", "octets")),
                        f"{RUNTIME}/commit_calls.h",
                    ],
                    extra_compile_args=FLAGS,
                    extra_link_args=LINK_FLAGS,
                )
                for name in COMPILED
            ),
        ],
        build_dir="build/cython",
        language_level=3,
        # The C types are in the .pxd files; the annotations in the sources are for people.
        compiler_directives={"annotation_typing": False, "binding": True},
        shared_utility_qualified_name=SHARED,
        nthreads=PROCESSES,
    )
    return built


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
setup(ext_modules=extensions(), options={"build_ext": {"parallel": PROCESSES}})
