"""The start of a node: journals, snapshots, and what follows from the logs."""
