"""Copying in transactions while brokers and workers die: exactly one copy of each message."""
