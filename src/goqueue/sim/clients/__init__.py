"""Simulated clients of a node: they ask, remember the answers, and report what broke a promise."""
