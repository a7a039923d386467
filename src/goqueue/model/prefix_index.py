"""Names by what stands before their first dot: that is how a tenant finds what it owns."""

from collections.abc import Sequence

__all__ = ["PrefixIndex"]


class PrefixIndex:
    """Names that have a dot, by prefix, in the order in which they came.

    Cost: one dictionary entry for each name.
    """

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def add(self, name: str) -> None:
        prefix, dot, _ = name.partition(".")
        if dot:
            self._names.setdefault(prefix, {})[name] = None

    def remove(self, name: str) -> None:
        prefix, dot, _ = name.partition(".")
        names = self._names.get(prefix) if dot else None
        if names is not None:
            names.pop(name, None)
            if not names:
                del self._names[prefix]

    def count(self, prefix: str) -> int:
        """How many names begin with the prefix and a dot."""
        return len(self._names.get(prefix, ()))

    def names(self, prefix: str) -> Sequence[str]:
        """Those names."""
        return list(self._names.get(prefix, ()))
