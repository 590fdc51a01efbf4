"""
The files of the page: HTML, modules and styles, each behind a sign-in and a strict policy.

They are read once and served under their own names only; no path from an address is ever opened.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from airflow.api_fastapi.core_api.security import requires_authenticated
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
"""Nothing from elsewhere, nothing inline, no plugin, no form; framed by Airflow only."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class File(NamedTuple):
    """A file of the page."""

    data: bytes
    type: str
    tag: str


def add_pages(app: FastAPI) -> None:
    """Add the routes of the files."""
    signed_in = [Depends(requires_authenticated())]
    app.get("/app", dependencies=signed_in)(to_page)
    app.get("/app/{name:path}", dependencies=signed_in)(page_file)


async def to_page(request: Request) -> Response:
    """Lead to the page; its own links are relative to a folder."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/app/{query}", headers=HEADERS)


async def page_file(request: Request, name: str) -> Response:
    """Return one file of the page."""
    file = all_files().get(name or "index.html")
    if file is None:
        raise HTTPException(404, "The Streams page has no such file.", headers=HEADERS)
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.data, media_type=file.type, headers=headers)


@cache
def all_files() -> dict[str, File]:
    """Return every file of the page by its name, e.g. ``vendor/uPlot.css``."""
    root = files("airflow_streaming.plugins") / "static"
    found: dict[str, File] = {}
    for folder in ("", "vendor"):
        for entry in (root / folder if folder else root).iterdir():
            suffix = entry.name[entry.name.rfind(".") :]
            if entry.is_file() and suffix in _TYPES:
                data = entry.read_bytes()
                tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
                name = f"{folder}/{entry.name}" if folder else entry.name
                found[name] = File(data, _TYPES[suffix], tag)
    return found
