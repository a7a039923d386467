"""Messages as the API hands them out: read from partitions, merged, followed, printed."""

from goqueue.cli.messages.cursor import Cursor, open_cursors
from goqueue.cli.messages.following import follow
from goqueue.cli.messages.item import Item, Page, read_page
from goqueue.cli.messages.merging import read_merged
from goqueue.cli.messages.outage import Outage
from goqueue.cli.messages.place import Start, read_time
from goqueue.cli.messages.printing import Printer, as_line

__all__ = [
    "Cursor",
    "Item",
    "Outage",
    "Page",
    "Printer",
    "Start",
    "as_line",
    "follow",
    "open_cursors",
    "read_merged",
    "read_page",
    "read_time",
]
