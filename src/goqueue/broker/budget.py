"""How much work one turn of the node has done, and how much it may still do.

A turn is one call of `Node.handle`. While it lasts nothing else is served, so work that grows with
users' data is done in steps: a part takes as much of it as the budget allows, keeps the rest in a
queue of its own, and sets an alarm for now to be called again. Between two turns the shell looks
at sockets.

One unit is one thing visited: a record, a journal entry, a lease, a waiting request. The budget
bounds the work that a turn chooses to do. What a command itself names (its receipts, its messages)
is bounded by the limits on requests; it is counted as well, so that the simulator sees all of it.
"""

__all__ = ["TURN_UNITS", "TurnBudget"]

# About two milliseconds of the slowest kind of unit.
TURN_UNITS = 500


class TurnBudget:
    """Counts units of work within one turn."""

    def __init__(self, units: int = TURN_UNITS) -> None:
        self.units = units
        self.spent = 0

    def begin(self) -> None:
        """A new turn."""
        self.spent = 0

    def spend(self, units: int = 1) -> None:
        """Count work that is done."""
        self.spent += units

    @property
    def left(self) -> int:
        """How many units the turn may still choose to do."""
        return max(0, self.units - self.spent)

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.units
