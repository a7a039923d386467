"""The documentation as a static site: `make docs` writes it to build/site.

Reads the Markdown of the repository and writes HTML that needs nothing from outside: no network, no
font, no library. Links are checked in the result. docs/adr/0036-docs-site.md says why there is no
site generator.

- `pages` decides which files become pages, and where.
- `markdown` turns the text of one page into HTML, headings and search entries.
- `navigation` orders the pages, by docs/README.md.
- `site` writes everything; `links` checks what was written.
"""
