"""Writes the dashboards: `python -m deploy.grafana.generate`, in the root of the project."""

from pathlib import Path

import msgspec

from deploy.grafana.pages import CLUSTER, DELAYS, GROUPS, LETTERS, OVERVIEW, STORAGE
from deploy.grafana.panels import document_of

__all__ = ["FOLDER", "encode_all", "main"]

FOLDER = Path(__file__).parent / "dashboards"


def encode_all() -> dict[str, bytes]:
    """The files by their names."""
    return {
        f"{dashboard.name}.json": msgspec.json.format(
            msgspec.json.encode(document_of(dashboard)), indent=2
        )
        + b"\n"
        for dashboard in (OVERVIEW, CLUSTER, GROUPS, DELAYS, LETTERS, STORAGE)
    }


def main() -> None:
    for name, content in encode_all().items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
