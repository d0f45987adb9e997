"""What mkdocs does not do by itself for this tree.

Pages link to other pages and to files as they lie in the tree, so that they read well there. Here
- README.md and its like become pages below ``tree/``,
- files of the tree that pages link to (scripts, examples) are put into the site below ``tree/``,
- links are turned to where these are, and one that leads nowhere is a warning, which ``strict`` makes an error,
- the decisions become a section of the navigation, in their order.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
TREE_PAGES = {
    "README.md": "tree/readme.md",
    "README.zh-CN.md": "tree/readme.zh-CN.md",
    "ARCHITECTURE.md": "tree/architecture.md",
    "CONTRIBUTING.md": "tree/contributing.md",
    "CHANGELOG.md": "tree/changelog.md",
    "SECURITY.md": "tree/security.md",
    "examples/README.md": "tree/examples.md",
}
_FENCES = re.compile(r"^( *)(```+)[^\n]*\n.*?^\1\2$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_log = get_plugin_logger("docs_site")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    for section in config.nav or []:
        if "Decisions" in section:
            section["Decisions"] = ["decisions/index.md", *sorted(_decisions())]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, place in TREE_PAGES.items():
        if (ROOT / source).is_file():
            files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    for page in list(files.documentation_pages()):
        source = _source(page)
        _turn_links(page.content_string, source, lambda target: _publish(target, files, config))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri == "decisions/index.md":
        markdown += "\n" + "\n".join(f"- [{_title(name)}]({posixpath.basename(name)})" for name in sorted(_decisions()))
    here = posixpath.dirname(page.file.src_uri)
    return _turn_links(markdown, _source(page.file), lambda target: _place(target, here, page, files))


def _decisions() -> list[str]:
    return [f"decisions/{file.name}" for file in (ROOT / "docs/decisions").glob("0*.md")]


def _title(decision: str) -> str:
    return (ROOT / "docs" / decision).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _source(file: File) -> str:
    """Where the page lies in the tree."""
    sources = {place: source for source, place in TREE_PAGES.items()}
    return sources.get(file.src_uri, f"docs/{file.src_uri}")


def _turn_links(text: str, source: str, turned: Callable[[str], str | None]) -> str:
    """The text with its relative links changed: ``turned`` is given what each leads to in the tree. Code stays."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    def turn(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        if not path or ":" in path or path.startswith("/"):
            return match[0]
        found = turned(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        return match[0] if found is None else f"{match[1]}{found}{mark}{anchor}{match[3]}"

    text = _LINK.sub(turn, _CODE.sub(keep, _FENCES.sub(keep, text)))
    while "\0" in text:  # code within code that was kept
        text = re.sub("\0(\\d+)\0", lambda match: kept[int(match[1])], text)
    return text


def _publish(target: str, files: Files, config: MkDocsConfig) -> None:
    """Takes a file of the tree that is no page into the site."""
    if target.startswith("docs/") or target in TREE_PAGES or not (ROOT / target).is_file():
        return
    place = f"tree/{target}"
    if files.get_file_from_path(place) is None:
        files.append(File.generated(config, place, abs_src_path=str(ROOT / target)))


def _place(target: str, here: str, page: Page, files: Files) -> str | None:
    """Where this file of the tree is in the site, seen from the page."""
    if (ROOT / target).is_dir():
        target = posixpath.join(target, "README.md" if target == "examples" else "index.md")
    if target in TREE_PAGES:
        place = TREE_PAGES[target]
    else:
        place = target.removeprefix("docs/") if target.startswith("docs/") else f"tree/{target}"
    if files.get_file_from_path(place) is None:
        _log.warning("%s links to %s, which is not there", _source(page.file), target)
        return None
    return posixpath.relpath(place, here or os.curdir)
