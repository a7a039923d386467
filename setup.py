"""Build of what is compiled: the records room, and the loop over many timers.

Everything else about the package is in pyproject.toml.

The extensions are optional: without a C compiler the same sources run interpreted.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup  # type: ignore[import-untyped]  # has no types

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
)
for extension in built:
    # cythonize() makes new Extension objects and forgets that these may fail to build.
    extension.optional = True

setup(ext_modules=built)
