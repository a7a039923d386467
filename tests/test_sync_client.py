"""The sync client is the async one in other words: `make sync-client` writes it."""

import inspect

import pytest

from goqueue.client import connect, connect_sync
from scripts.sync_client.__main__ import formatted, stale
from scripts.sync_client.modules import generate
from scripts.sync_client.rules import Rules
from scripts.sync_client.syntax import Untranslatable

WRAPPER = """
\"\"\"Shelves for threads.\"\"\"

__all__ = ["SyncShelf"]


class SyncShelf:
{by_hand}    # Generated from Shelf by `make sync-client`.
    ...
"""


def translated(members: str, *, by_hand: str = "", rules: Rules | None = None) -> str:
    """The sync class of an async class that has these members."""
    shelf = f"""
import datetime as dt
from typing import TypeVar, overload

T = TypeVar("T")
_HIDDEN = 3
LIMIT = 3


class Box:
    async def open(self) -> str: ...


class Shelf:
{members}
"""
    box = '"""Boxes."""\n\n__all__ = ["SyncBox"]\n\n\nclass SyncBox:\n'
    box += "    # Generated from Box by `make sync-client`.\n    ...\n"
    sync = {"shelf": WRAPPER.format(by_hand=by_hand), "box": box}
    return formatted("shelf", generate(sync, {"shelf": shelf}, rules or Rules())["shelf"])


def test_the_sync_client_is_what_the_async_client_makes_of_it() -> None:
    found = [path.name for path, _ in stale()]
    assert not found, "run `make sync-client`"


def test_both_ways_in_take_the_same_arguments() -> None:
    assert inspect.signature(connect).parameters == inspect.signature(connect_sync).parameters


def test_a_coroutine_function_runs_on_the_loop_with_its_signature_and_docstring() -> None:
    text = translated('''
    async def put(self, name: str, /, at: int = LIMIT, *, when: dt.datetime | None = None) -> int:
        """Put it there: `await shelf.put("a")`, in an `async with` of any task."""
''')
    assert "import datetime as dt\n" in text
    assert "from goqueue.client.shelf import LIMIT, Shelf\n" in text
    assert (
        "    def put(self, name: str, /, at: int = LIMIT, *, when: dt.datetime | None = None)"
        " -> int:\n"
        '        """Put it there: `shelf.put("a")`, in an `with` of any thread."""\n'
        "        return self._loop.call(self._shelf.put(name, at, when=when))\n"
    ) in text


def test_starred_arguments_are_handed_on_with_their_stars() -> None:
    text = translated("    async def put(self, *names: str, **marks: int) -> None: ...")
    assert "        self._loop.call(self._shelf.put(*names, **marks))\n" in text


def test_a_plain_method_runs_on_the_loop_unless_its_object_belongs_to_none() -> None:
    members = "    def count(self) -> int: ..."
    assert "return self._loop.apply(self._shelf.count)" in translated(members)
    of_value = translated(members, rules=Rules(values=("Shelf",)))
    assert "return self._shelf.count()" in of_value


def test_what_is_wrapped_is_handed_out_wrapped() -> None:
    text = translated("    async def box(self) -> Box: ...\n    def first(self) -> Box | None: ...")
    assert "return SyncBox(self._loop, self._loop.call(self._shelf.box()))" in text
    assert "def first(self) -> SyncBox | None:" in text
    assert "if made is None:\n            return None\n" in text
    assert "from goqueue.client.sync.box import SyncBox\n" in text


def test_a_class_that_is_told_from_another_is_imported_for_more_than_its_type() -> None:
    shelf = """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.client.box import Box, Crate


class Shelf:
    def keep(self) -> "Box | None": ...

    def first(self) -> "Box | Crate": ...
"""
    box = "class Box:\n    ...\n\n\nclass Crate:\n    ...\n"
    wrappers = '"""Boxes."""\n\n__all__ = ["SyncBox"]\n'
    for name in ("Box", "Crate"):
        marker = f"    # Generated from {name} by `make sync-client`.\n    ...\n"
        wrappers += f"\n\nclass Sync{name}:\n{marker}"
    sync = {"shelf": WRAPPER.format(by_hand=""), "box": wrappers}
    text = formatted("shelf", generate(sync, {"shelf": shelf, "box": box}, Rules())["shelf"])
    assert "if isinstance(made, Box):" in text
    assert "\nfrom goqueue.client.box import Box\n" in text


def test_an_attribute_that_is_wrapped_is_wrapped_once() -> None:
    text = translated("    def __init__(self) -> None:\n        self.box = Box()")
    assert "    @cached_property\n    def box(self) -> SyncBox:\n" in text


def test_an_argument_that_is_wrapped_is_unwrapped() -> None:
    rules = Rules(arguments={"Box": ("SyncBox", "{}.inner")})
    text = translated("    async def keep(self, box: Box | None) -> None: ...", rules=rules)
    assert "def keep(self, box: SyncBox | None) -> None:" in text
    assert "self._shelf.keep(None if box is None else box.inner)" in text


def test_overloads_and_type_variables_stay() -> None:
    text = translated("""
    @overload
    def read(self) -> object: ...

    @overload
    def read(self, kind: type[T]) -> T: ...

    def read(self, kind: type[T] | None = None) -> T | object:
        return kind
""")
    assert text.count("    @overload\n") == 2
    assert "import LIMIT" not in text
    assert "from goqueue.client.shelf import Shelf, T\n" in text
    assert "        read: Callable[..., T | object] = self._shelf.read\n" in text


def test_properties_are_read_where_the_thread_is() -> None:
    text = translated("    @property\n    def is_full(self) -> bool: ...")
    assert (
        "    @property\n    def is_full(self) -> bool:\n        return self._shelf.is_full" in text
    )


def test_async_context_managers_and_iterators_become_plain_ones() -> None:
    text = translated("""
    async def __aenter__(self) -> "Shelf":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "Shelf":
        return self

    async def __anext__(self) -> int: ...

    async def close(self) -> None: ...
""")
    assert 'def __enter__(self) -> "SyncShelf":\n        self._loop.call(' in text
    assert "def __exit__(self, *_: object) -> None:\n        self.close()\n" in text
    assert 'def __iter__(self) -> "SyncShelf":\n        return self\n' in text
    assert "        except StopAsyncIteration:\n            raise StopIteration from None\n" in text


def test_what_is_written_by_hand_is_kept_and_not_generated() -> None:
    by_hand = '    """A shelf."""\n\n    def put(self, name: str) -> None:\n        assert name\n\n'
    members = (
        "    async def put(self, name: str) -> None: ...\n\n    async def take(self) -> str: ..."
    )
    text = translated(members, by_hand=by_hand)
    assert text.count("def put(") == 1
    assert text.index("def put(") < text.index("# Generated from Shelf") < text.index("def take(")


def test_a_method_written_by_hand_has_to_follow_the_async_one() -> None:
    by_hand = "    def put(self, name: str) -> None:\n        assert name\n\n"
    members = "    async def put(self, name: str, *, is_last: bool = False) -> None: ..."
    with pytest.raises(Untranslatable, match=r"SyncShelf\.put .* in is_last"):
        translated(members, by_hand=by_hand)
    translated(members, by_hand=by_hand, rules=Rules(differing={"Shelf.put": ("is_last",)}))
    with pytest.raises(Untranslatable, match=r"the rules name Shelf\.gone"):
        translated(members, by_hand=by_hand, rules=Rules(hidden={"Shelf": ("gone",)}))


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("async def walk(self) -> AsyncIterator[int]: ...", "AsyncIterator"),
        ("def put(self) -> Awaitable[None]: ...", "Awaitable"),
        ("async def put(self, on_done: Callable[[], Awaitable[None]]) -> None: ...", "Awaitable"),
        ("async def all(self) -> list[Box]: ...", r"returns list\[Box\]"),
        ("async def keep(self, box: Box) -> None: ...", "takes Box"),
        ("async def put(self, at: int = _HIDDEN) -> None: ...", "_HIDDEN .* is private"),
        ("async def put(self, at: Unknown) -> None: ...", "uses Unknown"),
        ("async def put(self): ...", "does not say what it returns"),
        ("@staticmethod\n    def put() -> None: ...", "decorated by staticmethod"),
        ("def __len__(self) -> int: ...", "__len__ has no translation"),
        ("def __init__(self) -> None:\n        self.size = 3", "make it a property"),
        ('async def put(self) -> None:\n        """Not async."""', "docstring"),
        ("size = 3", "size = 3"),
    ],
)
def test_what_has_no_translation_is_refused(member: str, words: str) -> None:
    with pytest.raises(Untranslatable, match=words):
        translated(f"    {member}")
