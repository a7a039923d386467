"""Writes the sync client from the async client: `make sync-client`.

A class of `goqueue.client.sync` wraps one class of `goqueue.client` and names it in a marker line.
What stands above the marker is written by hand and is kept as it is. Everything below is generated:
for each public member of the async class that is not written by hand, a member of the same name,
signature and docstring that runs it on the loop of the connection. The imports of the module follow
from both parts.

    class SyncTopics:
        # Generated from Topics by `make sync-client`.
        ...

Invariant: every public member of an async class is generated, written by hand, or hidden by
`rules.py`, and a method written by hand has the parameters of the async one but for those that
`rules.py` lists. What cannot be translated raises `Untranslatable`; nothing is left out silently.
"""
