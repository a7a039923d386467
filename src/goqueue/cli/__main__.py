"""`python -m goqueue.cli` is the `goqueue` command."""

from goqueue.cli.program import main

main()
