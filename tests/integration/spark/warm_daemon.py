"""The process that Spark forks its Python workers from, with their imports done.

Each query starts several workers, and most of what a short one does is to import Arrow, pyspark and
our client. Spark's own daemon imports nothing of it, because a program may import what starts
threads, which a fork loses. What is named here starts none but that of jemalloc, which knows forks.
"""

import importlib
import os
import pkgutil

__all__: list[str] = []

_PRELOADED = ("numpy", "pyarrow", "pyspark.worker", "goqueue.spark")
_PLANNERS = "pyspark.sql.worker"

if __name__ == "__main__":
    # A pool of threads that a fork would lose.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for preloaded in _PRELOADED:
        importlib.import_module(preloaded)
    planners = importlib.import_module(_PLANNERS)
    for module in pkgutil.iter_modules(planners.__path__, f"{_PLANNERS}."):
        importlib.import_module(module.name)
    from pyspark.daemon import manager

    manager()
