"""Copy the files that a stream has committed from an object store, for a Spark without access to it."""

from __future__ import annotations

from pathlib import Path

import fsspec

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG
from airflow_streaming.checkpoints.restore.sink_log import batch_of_entry, files_of
from airflow_streaming.model.uris import to_fsspec


def fetch_output(uri: str, folder: Path) -> Path:
    """
    Copy the files in the log of a file sink into a folder, and return the folder.

    The log itself names places in the store, so it is left out.

    :raises RuntimeError: a file that the log names is missing.
    """
    files, root = fsspec.url_to_fs(to_fsspec(uri))
    files.invalidate_cache()
    log = f"{root}/{SINK_LOG}"
    entries = {
        name: files.cat_file(path)
        for path in files.ls(log, detail=False)
        if batch_of_entry(name := path.rpartition("/")[2]) is not None
    }
    for path in files_of(entries, log):
        relative = path.partition(f"{root}/")[2]
        target = folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            files.get_file(f"{root}/{relative}", str(target))
        except FileNotFoundError as err:
            raise RuntimeError(f"{path} is in the log of {uri} and missing.") from err
    return folder
