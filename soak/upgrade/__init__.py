"""A cluster under load whose nodes are replaced by a newer release, one at a time."""
