"""
The home that a command is given, looked at before anything is said of it.

A folder that was misspelt or is not mounted has no streams, and "no streams" must never look well to
whoever watches the exit code. What tells a home from a folder is the record that its store was
tried, which is written before the first stream is deployed there; one that has lost that record is
known by its streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from airflow_streaming.cli.parser import HOME_VARIABLE
from airflow_streaming.core.names import is_path_part
from airflow_streaming.core.uris import is_local, local_path
from airflow_streaming.exceptions import SpecError
from airflow_streaming.files.store import Store
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.home.probe import RECORD

_MOST_FOLDERS: Final = 100
"""How many folders to look into for a stream; a bucket that was named by mistake may hold more."""

_MOST_NAMED: Final = 3
_ADVICE: Final = (
    f"Check --home or ${HOME_VARIABLE}, and whether its disk is mounted; a home is made by "
    "the first deployment of a stream."
)


def open_known(uri: str | None) -> Home:
    """
    Open the home that a person named; nothing is written.

    :param uri: As given by ``--home`` or the environment; ``None`` or empty when it was not.
    :raises SpecError: none was named, it cannot be a home, or there is no home.
    :raises HomeUnavailable: it cannot be reached.
    """
    if not uri:
        raise SpecError(f"Which home? Give --home, or set {HOME_VARIABLE}.")
    home = open_home(uri, probe=False)
    if home.store.read(RECORD) is None:
        _check_has_stream(home.store)
    return home


def _check_has_stream(store: Store) -> None:
    names = store.names("")
    folders = islice(filter(is_path_part, names), _MOST_FOLDERS)
    if not any("deployments" in store.names(name) for name in folders):
        raise SpecError(
            f"There is no home at {store.uri}: {_what_is_there(store, names)}. {_ADVICE}"
        )


def _what_is_there(store: Store, names: Sequence[str]) -> str:
    if names:
        more = ", ..." if len(names) > _MOST_NAMED else ""
        return f"what is there is not of ours ({', '.join(names[:_MOST_NAMED])}{more})"
    if not is_local(store.uri):
        return "nothing is stored there"
    path = Path(local_path(store.uri))
    if path.is_dir():
        return "the folder is empty"
    return "that is a file" if path.exists() else "there is no such folder"
