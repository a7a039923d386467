"""Transactions: decisions, markers, offsets and acks, and the state of producers."""
