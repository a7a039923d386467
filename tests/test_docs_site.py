"""The documentation as a site: complete, linked, searchable, and without anything from outside."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.docs_site.links import finds_broken_links
from scripts.docs_site.markdown import PageInvalid, render
from scripts.docs_site.navigation import HOME, sections
from scripts.docs_site.pages import ROOT, Tree
from scripts.docs_site.site import build

NODE = shutil.which("node")
SEARCH = ROOT / "scripts" / "docs_site" / "assets" / "search.js"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    build(Tree(), folder)
    return folder


def tree_of(folder: Path, pages: dict[str, str]) -> Tree:
    """A repository with these files, and a home page if they have none."""
    for path, text in {HOME: "# Home\n", **pages}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Tree(folder)


def search_index(site: Path) -> list[dict[str, str]]:
    script = (site / "search-index.js").read_text(encoding="utf-8")
    entries: list[dict[str, str]] = json.loads(script.partition("=")[2].rstrip().rstrip(";"))
    return entries


# ---- the site of this repository -----------------------------------------------------------


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    assert list(finds_broken_links(site)) == []


def test_every_page_is_in_the_navigation_of_every_page(site: Path) -> None:
    tree = Tree()
    pages = [render(path, tree) for path in tree.page_paths()]
    listed = [page.path for section in sections(pages) for page in section.pages]
    assert sorted([*listed, HOME]) == sorted(tree.page_paths())
    home = (site / "index.html").read_text(encoding="utf-8")
    for page in pages:
        assert page.path == HOME or f'href="{page.url}"' in home, page.path


def test_every_page_below_docs_is_named_by_the_home_page_or_by_the_list_of_decisions() -> None:
    tree = Tree()
    named = {
        target.url for path in (HOME, "docs/adr/README.md") for target in render(path, tree).targets
    }
    left = [path for path in tree.page_paths() if path != HOME and tree.url(path) not in named]
    assert not left, "name these pages in docs/README.md"


def test_the_same_tree_gives_the_same_site(site: Path, tmp_path: Path) -> None:
    build(Tree(), tmp_path / "site")
    files = sorted(path.relative_to(site) for path in site.rglob("*") if path.is_file())
    assert files == sorted(
        path.relative_to(tmp_path / "site")
        for path in (tmp_path / "site").rglob("*")
        if path.is_file()
    )
    for file in files:
        assert (site / file).read_bytes() == (tmp_path / "site" / file).read_bytes(), file


@pytest.mark.skipif(NODE is None, reason="there is no node to run the search with")
@pytest.mark.parametrize(
    ("query", "url"),
    [
        ("visibility_timeout", "reference/topic-settings.html"),
        ("receipt_stale", "reference/errors.html#receipt_stale"),
        ("goqueue_consumer_lag", "reference/metrics.html#consumer-groups"),
        ("dead letters redrive", "guides/delivery.html#dead-letters"),
        ("PREFETCH", "guides/delivery.html#prefetch"),
        ("visibility timeout", "reference/topic-settings.html"),
        ("max deliveries", "reference/topic-settings.html"),
    ],
)
def test_the_search_finds_a_word_where_it_is_explained(site: Path, query: str, url: str) -> None:
    assert url in searched(site, query)[:5]


@pytest.mark.skipif(NODE is None, reason="there is no node to run the search with")
def test_the_search_wants_every_word_and_is_bounded(site: Path) -> None:
    assert searched(site, "topic no-such-word-anywhere") == []
    assert searched(site, "   ") == []
    assert len(searched(site, "e")) == 20


def searched(site: Path, query: str) -> list[str]:
    """The addresses that the search of the site finds, best first."""
    program = """
        globalThis.window = globalThis;
        require(process.argv[1]);
        const search = require(process.argv[2]);
        const found = search.find(window.goqueueSearchIndex, process.argv[3]);
        for (const entry of found) search.snippetOf(entry, process.argv[3]);
        console.log(JSON.stringify(found.map((entry) => entry.url)));
    """
    assert NODE is not None
    ran = subprocess.run(
        [NODE, "-e", program, str(site / "search-index.js"), str(SEARCH), query],
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(ran.stdout)
    return found


# ---- any site ------------------------------------------------------------------------------


def test_a_new_page_is_in_the_navigation_without_being_listed(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path / "tree",
        {
            HOME: "# Home\n\n[Second](guides/second.md)\n",
            "docs/guides/first.md": "# First\n",
            "docs/guides/second.md": "# Second\n",
            "docs/recipes/third.md": "# Third\n",
        },
    )
    pages = build(tree, tmp_path / "site")
    found = {section.title: [page.title for page in section.pages] for section in sections(pages)}
    assert found == {"Guides": ["Second", "First"], "Recipes": ["Third"]}


def test_a_link_to_a_file_that_does_not_exist_fails_the_build(tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "tree", {"docs/page.md": "# Page\n\n[there](nowhere.md)\n"})
    with pytest.raises(PageInvalid, match=r"docs/page\.md: links to nowhere\.md"):
        build(tree, tmp_path / "site")


def test_a_link_to_a_heading_that_does_not_exist_is_found(tmp_path: Path) -> None:
    pages = {"docs/page.md": "# Page\n\n## One\n\n[good](#one) [bad](#two) [other](README.md#x)\n"}
    build(tree_of(tmp_path / "tree", pages), tmp_path / "site")
    assert list(finds_broken_links(tmp_path / "site")) == [
        "page.html: links to #two, which has no such heading",
        "page.html: links to index.html#x, which has no such heading",
    ]


def test_what_a_page_would_load_from_outside_is_found(tmp_path: Path) -> None:
    pages = {"docs/page.md": "# Page\n\n![logo](https://elsewhere.example/logo.png)\n"}
    build(tree_of(tmp_path / "tree", pages), tmp_path / "site")
    assert list(finds_broken_links(tmp_path / "site")) == [
        "page.html: loads https://elsewhere.example/logo.png from outside"
    ]


def test_comments_are_left_out(tmp_path: Path) -> None:
    text = "# Page\n\n<!-- one -->\n```sh\ntrue\n```\n\nshown <!-- two --> text\n"
    build(tree_of(tmp_path / "tree", {"docs/page.md": text}), tmp_path / "site")
    page = (tmp_path / "site" / "page.html").read_text(encoding="utf-8")
    assert "one" not in page.partition("<main")[2]
    assert "two" not in page.partition("<main")[2]
    assert "shown  text" in page


def test_headings_of_the_same_text_have_different_anchors(tmp_path: Path) -> None:
    text = "# Page\n\n## Errors\n\nfirst\n\n## Errors\n\n[one](#errors) [two](#errors-1)\n"
    build(tree_of(tmp_path / "tree", {"docs/page.md": text}), tmp_path / "site")
    assert list(finds_broken_links(tmp_path / "site")) == []
    found = [each["url"] for each in search_index(tmp_path / "site") if each["text"]]
    assert found == ["page.html#errors", "page.html#errors-1"]


def test_text_of_a_page_never_becomes_markup(tmp_path: Path) -> None:
    text = '# A <b> & `<script>`\n\n```sh\necho "<script>alert(1)</script>"\n```\n'
    build(
        tree_of(tmp_path / "tree", {"docs/page.md": text.replace("<b>", "\\<b>")}), tmp_path / "s"
    )
    page = (tmp_path / "s" / "page.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1, "the search of the site"
    assert "<title>A &lt;b&gt; &amp; &lt;script&gt; · GoQueue</title>" in page


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no title\n", "does not begin with a title"),
        ("# Page\n\n<div>x</div>\n", "has HTML"),
        ("# Page\n\na <br> b\n", "has HTML"),
        ("# Page\n\n```nonsense\nx\n```\n", "nobody knows the language nonsense"),
    ],
)
def test_a_page_that_would_look_different_in_a_repository_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    tree = tree_of(tmp_path / "tree", {"docs/page.md": text})
    with pytest.raises(PageInvalid, match=why):
        build(tree, tmp_path / "site")


def test_files_that_a_page_links_to_are_copied(tmp_path: Path) -> None:
    pages = {
        "docs/page.md": "# Page\n\n[file](../examples/one.yaml)\n",
        "examples/one.yaml": "a: 1\n",
    }
    build(tree_of(tmp_path / "tree", pages), tmp_path / "site")
    assert (tmp_path / "site" / "files" / "examples" / "one.yaml").read_text() == "a: 1\n"
    assert list(finds_broken_links(tmp_path / "site")) == []


def test_a_link_out_of_the_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    tree = tree_of(tmp_path / "tree", {"docs/page.md": "# Page\n\n[x](../../secret.txt)\n"})
    with pytest.raises(PageInvalid, match="does not exist"):
        build(tree, tmp_path / "site")
