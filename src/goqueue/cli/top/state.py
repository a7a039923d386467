"""What the person at the screen has chosen: which view, which row, in which order, what filter.

Pure: a key in, the next choice out. Never knows how many rows there are: a cursor beyond the end is
brought back where the rows are drawn. Enter opens the row under the cursor, whose name the caller
knows; escape goes back.
"""

import enum

import msgspec

__all__ = ["FILTER_MAX", "Choice", "View", "press"]

FILTER_MAX = 249
PAGE_ROWS = 10
_FAR = 1_000_000


class View(enum.StrEnum):
    """The screens, in the order of their numbers."""

    TOPICS = "topics"
    GROUPS = "groups"
    WAITING = "waiting"
    DEAD_LETTERS = "letters"
    NODE = "node"
    CLUSTER = "cluster"

    @property
    def label(self) -> str:
        """What a screen is called; its value is short, for `--view`."""
        return _LABELS.get(self, self.value)


_LABELS = {View.WAITING: "priorities and delays", View.DEAD_LETTERS: "dead letters"}

VIEWS = tuple(View)
# Views whose rows can be opened.
_OPENED = (View.TOPICS, View.GROUPS, View.DEAD_LETTERS, View.CLUSTER)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a key can change.

    `order` counts how often the order of the rows was changed, `cursor` is the row that enter
    opens. `opened` is the topic, group or dead-letter topic whose details are shown.
    """

    view: View = View.TOPICS
    order: int = 0
    is_reversed: bool = False
    wanted: str = ""
    is_typing: bool = False
    is_paused: bool = False
    has_help: bool = False
    cursor: int = 0
    opened: str = ""
    is_over: bool = False


_replace = msgspec.structs.replace


def press(choice: Choice, key: str, under_cursor: str = "") -> Choice:
    """The choice after a key: a character, or the name of a key."""
    if choice.has_help:
        return _replace(choice, has_help=False, is_over=key == "q")
    if choice.is_typing:
        return _type(choice, key)
    if key in _STEPS:
        return _replace(choice, cursor=max(0, choice.cursor + _STEPS[key]))
    if key in _TABS:
        position = (VIEWS.index(choice.view) + _TABS[key]) % len(VIEWS)
        return _look_at(choice, VIEWS[position])
    if key.isdecimal() and 1 <= int(key) <= len(VIEWS):
        return _look_at(choice, VIEWS[int(key) - 1])
    if key == "enter":
        return _open(choice, under_cursor)
    return _command(choice, key)


def _open(choice: Choice, name: str) -> Choice:
    """Show the details of a row, unfiltered; a group of a topic is opened in its own view."""
    if choice.view not in _OPENED or not name:
        return choice
    if not choice.opened:
        return _replace(choice, opened=name, wanted="", cursor=0, order=0, is_reversed=False)
    if choice.view is View.TOPICS:
        return _replace(choice, view=View.GROUPS, opened=name, wanted="", cursor=0)
    return choice


# "0" is no view, and the way back to the top is a step that always suffices.
_STEPS = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page_up": -PAGE_ROWS,
    "page_down": PAGE_ROWS,
    "home": -_FAR,
    "end": _FAR,
}
_TABS = {"tab": 1, "right": 1, "back_tab": -1, "left": -1}


def _command(choice: Choice, key: str) -> Choice:
    match key:
        case "q":
            return _replace(choice, is_over=True)
        case "p":
            return _replace(choice, is_paused=not choice.is_paused)
        case "s":
            return _replace(choice, order=choice.order + 1, is_reversed=False, cursor=0)
        case "r":
            return _replace(choice, is_reversed=not choice.is_reversed, cursor=0)
        case "/":
            return _replace(choice, is_typing=True)
        case "?" | "h":
            return _replace(choice, has_help=True)
        case "escape" | "backspace" if choice.opened:
            return _replace(choice, opened="", cursor=0)
        case "escape":
            return _replace(choice, wanted="", cursor=0)
        case _:
            return choice


def _look_at(choice: Choice, view: View) -> Choice:
    if view is choice.view:
        return _replace(choice, opened="", cursor=0) if choice.opened else choice
    return _replace(choice, view=view, opened="", order=0, is_reversed=False, cursor=0)


def _type(choice: Choice, key: str) -> Choice:
    """The filter works while it is typed."""
    match key:
        case "enter":
            return _replace(choice, is_typing=False)
        case "escape":
            return _replace(choice, is_typing=False, wanted="", cursor=0)
        case "backspace":
            return _replace(choice, wanted=choice.wanted[:-1], cursor=0)
        case "erase":
            return _replace(choice, wanted="", cursor=0)
    if len(key) == 1 and key.isprintable() and len(choice.wanted) < FILTER_MAX:
        return _replace(choice, wanted=choice.wanted + key, cursor=0)
    return choice
