"""The Python of the pages can be pasted: read from top to bottom, a page names nothing that it does not have."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.dag_files import dags_in
from tests.documents import imported, names, pages, snippets, text_of

PAGES: Final = [page for page in pages() if snippets(page)]
BUILTINS: Final = frozenset(dir(builtins))


def missing_names(sources: list[str]) -> list[str]:
    """Return what snippets use that neither they nor those above them have."""
    known, missing = set(BUILTINS), list[str]()
    for source in sources:
        defined, used = names(source)
        known |= defined
        missing += sorted(used - known)
    return missing


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_every_name_that_its_python_uses(page: str) -> None:
    assert missing_names([one.source for one in snippets(page)]) == []


def test_a_name_that_a_page_does_not_have_is_found() -> None:
    above = "def check(x):\n    import re\n    return re, [x for y in x], later(HOME)\n"

    assert missing_names([above, "later = spec"]) == ["HOME", "later", "spec"]
    assert missing_names(["HOME, spec = later = 1, len", above, "later = spec"]) == []


def test_the_pages_have_python() -> None:
    assert {"README.md", "docs/gating.md", "docs/launcher-example.md"} <= {*PAGES}
    assert sum(len(snippets(page)) for page in PAGES) > 30


NEED_SPARK: Final = frozenset({"docs/testing.md"})
"""Run by ``tests/integration/pipelines/test_kit.py``."""


def as_module(page: str, places: Mapping[str, str]) -> str:
    """Return the Python of a page as one module, with the page's line numbers."""
    lines = [""] * text_of(page).count("\n")
    for one in snippets(page):
        source = one.source.replace("from __future__ import annotations\n", "\n")
        for written, place in places.items():
            source = source.replace(written, place)
        lines[one.line - 1 : one.line - 1 + source.count("\n")] = source.splitlines()
    return "\n".join(lines)


@pytest.mark.parametrize("page", sorted({*PAGES} - NEED_SPARK))
def test_airflow_imports_the_python_of_a_page_as_a_dag_file(page: str, tmp_path: Path) -> None:
    (tmp_path / "counts" / "offsets").mkdir(parents=True)
    file = tmp_path / f"{Path(page).stem}.py"
    file.write_text(as_module(page, {"s3://lake/checkpoints/counts": str(tmp_path / "counts")}))
    wanted = {name for one in snippets(page) for name in imported(one.source)}
    for name in wanted:
        if name.startswith("airflow.providers."):
            pytest.importorskip(name)

    dags = dags_in(file)

    assert bool(dags) == any(
        "DAG(" in one.source or "stream_dags(" in one.source for one in snippets(page)
    )


def test_a_wrong_argument_and_a_wrong_name_are_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    for wrong in (
        "from airflow_streaming.spec import Stream",
        "from airflow_streaming.spec import RestartPolicy\nRestartPolicy(poison_afer=5)",
        "from airflow.sdk import DAG\nwith DAG('x', schedule='@fortnightly'): pass",
    ):
        file.write_text(wrong)
        with pytest.raises(AssertionError):
            dags_in(file)
