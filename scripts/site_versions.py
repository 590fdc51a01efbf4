"""
Keeps the sites of several versions beside each other.

``make docs`` builds into ``site/VERSION``. This hook of MkDocs then renews ``site/versions.json``, which the
theme's menu of versions reads, and ``site/index.html``, which leads to the newest version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from packaging.version import InvalidVersion, Version

FORWARD: Final = """<!doctype html>
<meta charset="utf-8">
<title>airflow-streaming</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">airflow-streaming {newest}</a>
"""


def listed(names: Iterable[str]) -> list[dict[str, Any]]:
    """
    Return the rows of the theme's menu, newest version first.

    The newest release has the alias ``latest``; a pre-release has it only where no release exists.
    """
    versions = sorted((one for name in names if (one := _version(name))), reverse=True)
    releases = [one for one in versions if not one.is_prerelease]
    latest = next(iter(releases or versions), None)
    return [
        {"version": str(one), "title": str(one), "aliases": ["latest"] if one == latest else []}
        for one in versions
    ]


def _version(name: str) -> Version | None:
    try:
        return Version(name)
    except InvalidVersion:
        return None


def on_post_build(*, config: Any) -> None:
    """Renew the list of versions beside the site that was built; a site without a version has none."""
    built = Path(config.site_dir)
    if _version(built.name) is None:
        return
    rows = listed(path.name for path in built.parent.iterdir() if path.is_dir())
    (built.parent / "versions.json").write_text(json.dumps(rows, indent=1) + "\n")
    newest = next(row["version"] for row in rows if row["aliases"])
    (built.parent / "index.html").write_text(FORWARD.format(newest=newest))
