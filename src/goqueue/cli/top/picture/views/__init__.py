"""The five screens: each draws what the board knows of its subject into the room it is given."""

from goqueue.cli.top.picture.views.body import Body
from goqueue.cli.top.picture.views.groups import draw_groups
from goqueue.cli.top.picture.views.letters import draw_letters
from goqueue.cli.top.picture.views.node import draw_node
from goqueue.cli.top.picture.views.topics import draw_topics
from goqueue.cli.top.picture.views.waiting import draw_waiting

__all__ = ["Body", "draw_groups", "draw_letters", "draw_node", "draw_topics", "draw_waiting"]
