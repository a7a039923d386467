"""Seeds of the simulator, and the faults that prove it."""

__all__: list[str] = []
