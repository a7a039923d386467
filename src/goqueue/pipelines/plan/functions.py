"""Steps in Python: a function by its name, found beside the pipeline file or where it is installed.

Functions from the folder of the file are pickled by value, so that executors need not find it.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.pipelines.plan.refusals import StepInvalid

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import DataFrame

__all__ = ["Transform", "find_function"]

Transform = Callable[["DataFrame"], "DataFrame"]


def find_function(name: str, folder: Path, place: str) -> Transform:
    """The function that `module:function` names."""
    module_name, _, attribute = name.partition(":")
    module = _module(module_name, folder, place)
    found = getattr(module, attribute, None)
    if not callable(found):
        raise StepInvalid(place, f"`{module_name}` has no function `{attribute}`")
    function: Transform = found
    return function


def _module(name: str, folder: Path, place: str) -> "ModuleType":
    from pyspark import cloudpickle

    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(name)
    except Exception as error:
        # The module is a user's own: whatever it raises is said with its name.
        words = f"`{name}` cannot be imported: {type(error).__name__}: {error}"
        raise StepInvalid(place, words) from error
    finally:
        sys.path.remove(str(folder))
    file = getattr(module, "__file__", None)
    if file is not None and folder.resolve() in Path(file).resolve().parents:
        package = sys.modules[name.partition(".")[0]]
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]  # bundled as it is
    return module
