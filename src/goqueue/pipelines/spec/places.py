"""Where things stand in a YAML file, so that a problem can name its line.

Reads the same text that becomes the pipeline, as nodes. Refuses what YAML lets pass and nobody
means: the same key twice.
"""

import re

import yaml

__all__ = ["KeyTwice", "Places", "YamlKey", "path_of"]

YamlKey = str | int
_PART = re.compile(r"\.([A-Za-z_][\w]*)|\[(\d+)\]|(\[\.\.\.\])")


class KeyTwice(ValueError):
    """The same key stands twice in one mapping."""

    def __init__(self, key: str, line: int) -> None:
        super().__init__(key, line)
        self.key = key
        self.line = line


class Places:
    """The lines of everything in a file, by path."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[YamlKey, ...], int] = {}
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            self._walk(root, ())

    def line(self, path: tuple[YamlKey, ...]) -> int | None:
        """The line of what stands there, or of what is around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)

    def _walk(self, node: yaml.Node, path: tuple[YamlKey, ...]) -> None:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in seen:
                    raise KeyTwice(name, key.start_mark.line + 1)
                seen.add(name)
                self._lines[*path, name] = key.start_mark.line + 1
                self._walk(value, (*path, name))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self._walk(value, (*path, index))


def path_of(text: str) -> tuple[YamlKey, ...]:
    """The path that msgspec writes as `$.steps[0].sql`; up to where it does not say which."""
    path: list[YamlKey] = []
    for name, index, unknown in _PART.findall(text):
        if unknown:
            break
        path.append(name or int(index))
    return tuple(path)
