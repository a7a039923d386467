"""How a demonstration speaks: numbered steps, sentences, and claims that were checked."""

from rich.console import Console

__all__ = ["Show"]


class Show:
    """What was shown so far, and whether all of it was proven."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._steps = 0
        self.failures = 0

    def step(self, title: str) -> None:
        self._steps += 1
        self._console.print(f"\n[bold]{self._steps}. {title}[/bold]")

    def say(self, words: str) -> None:
        self._console.print(f"   {words}", markup=False)

    def prove(self, claim: str, *, holds: bool) -> None:
        self.failures += not holds
        mark = "[green]proven[/green]" if holds else "[bold red]NOT TRUE[/bold red]"
        self._console.print(f"   {mark}: {claim}")

    def end(self) -> None:
        self._console.print()
        if self.failures:
            self._console.print(f"[bold red]{self.failures} claims do not hold[/bold red]")
        else:
            self._console.print("[bold green]Everything above was checked and holds.[/bold green]")
