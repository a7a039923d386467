"""The rules of the house that no linter knows, as functions from a source to its findings."""
