"""What is known of a node as lines for a screen of any size. Pure."""

from goqueue.cli.top.picture.figures import age, rate, short, signed
from goqueue.cli.top.picture.frame import Frame, Size, draw_all, draw_frame
from goqueue.cli.top.picture.lines import Line, Span, Style, fit, flow, width_of
from goqueue.cli.top.picture.sparkline import BARS, sparkline
from goqueue.cli.top.picture.table import Column, Order, Window, arrange, draw_table

__all__ = [
    "BARS",
    "Column",
    "Frame",
    "Line",
    "Order",
    "Size",
    "Span",
    "Style",
    "Window",
    "age",
    "arrange",
    "draw_all",
    "draw_frame",
    "draw_table",
    "fit",
    "flow",
    "rate",
    "short",
    "signed",
    "sparkline",
    "width_of",
]
