"""A long run of real processes against a node that is killed again and again."""
