"""
Adds to the site of ``make docs`` the pages that are kept elsewhere.

The README is the site's first page; files of the root and the examples become pages, and links between
them lead to these pages. A link to any other file outside of ``docs`` fails the build.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, InclusionLevel

ROOT: Final = Path(__file__).resolve().parents[1]
PLACES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "vulnerabilities.md",
    "SKILL.md": "skill.md",
}
"""Pages of the menu, by their file in the repository."""
LINK: Final = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)")


def _examples() -> dict[str, str]:
    """Return the pages of the examples, by their file: a README each, and the Python beside it."""
    found = {"dags": "examples/index.md"}
    for path in sorted(ROOT.glob("dags/**/*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py":
            found[name] = f"examples/{name.removeprefix('dags/')}.md"
        elif path.name == "README.md":
            found[name] = f"examples/{path.parent.name}/index.md"
    return found


EXAMPLES: Final = _examples()
DECISIONS: Final = "adr/index.md"


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages."""
    for source, place in PLACES.items():
        files.append(_page(config, place, (ROOT / source).read_text()))
    for source, place in EXAMPLES.items():
        text = _index() if source == "dags" else _text(source)
        files.append(_page(config, place, text, InclusionLevel.NOT_IN_NAV))
    decisions = sorted((ROOT / "docs/adr").glob("*.md"))
    rows = [f"- [{_title(path)}]({path.name})" for path in decisions]
    files.append(_page(config, DECISIONS, "\n".join(["# Decisions", "", *rows, ""])))
    for one in files:
        if one.src_uri.startswith("adr/") and one.src_uri != DECISIONS:
            one.inclusion = InclusionLevel.NOT_IN_NAV
    return files


def _page(config: Any, place: str, text: str, level: Any = InclusionLevel.INCLUDED) -> Any:
    return File.generated(config, place, content=text, inclusion=level)


def _text(source: str) -> str:
    text = (ROOT / source).read_text()
    if not source.endswith(".py"):
        return text
    return f"# {source}\n\n```python\n{text}```\n"


def _index() -> str:
    rows = [
        f"- [{source}]({place.removeprefix('examples/')})"
        for source, place in EXAMPLES.items()
        if source != "dags"
    ]
    return "\n".join(["# Example DAGs", "", *rows, ""])


def on_post_build(*, config: Any) -> None:
    """Write ``llms.txt``: every page of the menu with its first sentence, for coding agents."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        prose = [one for one in text.split("\n\n") if one[:1].isalpha()]
        about = re.split(r"(?<=[.:])\s", " ".join(prose[0].split()))[0] if prose else ""
        about = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", about)
        lines.append(f"- [{_title(path)}]({path.stem}.html): {about}")
    lines += ["", "The rules for agents are in [SKILL](skill.html).", ""]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines))


def _title(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("# ")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Lead the links of a page to the pages of the site."""
    here = page.file.src_uri
    source = {place: name for name, place in {**PLACES, **EXAMPLES}.items()}.get(
        here, f"docs/{here}"
    )
    if here in (DECISIONS, EXAMPLES["dags"]):
        return markdown

    def led(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        place = {**PLACES, **EXAMPLES, "docs/adr": DECISIONS}.get(target)
        if place is None and target.startswith("docs/"):
            place = target.removeprefix("docs/")
        if place is None:
            return found[0]  # a dead link, which the build reports
        return found[1] + os.path.relpath(place, posixpath.dirname(here) or ".")

    return LINK.sub(led, markdown)
