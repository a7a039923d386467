"""Timers that wait for a moment of the wall clock."""

from goqueue.delivery.wheel.ring import TICK_NS
from goqueue.delivery.wheel.wheel import WHEEL_REACH_NS, Timer, Wheel

__all__ = ["TICK_NS", "WHEEL_REACH_NS", "Timer", "Wheel"]
