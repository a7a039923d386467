"""Stand-in for the `cython` module, for compiled modules that run interpreted without Cython.

Owns the names that they read of it, and no others. A compiled module never imports this: there the
compiler replaces the names.
"""

import contextlib

__all__ = ["compiled", "nogil"]

compiled = False
nogil = contextlib.nullcontext()
