"""Copying a topic by Spark while executor, driver and broker die: each row exactly once."""
