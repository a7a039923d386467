"""Simulated clients of a node: they send commands, record the answers, and
report every answer that breaks a promise.
"""
