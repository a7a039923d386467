"""The two roads to a topic, JSON and records, and the tally of what took them."""

from goqueue.cli.produce.roads.posting import Posting
from goqueue.cli.produce.roads.sending import Sending
from goqueue.cli.produce.roads.single import produce_single
from goqueue.cli.produce.roads.tally import Tally

__all__ = ["Posting", "Sending", "Tally", "produce_single"]
