"""
The files of a declarative pipeline as one text: the program of its deployment.

The pipeline's YAML names Python and SQL files by globs. A deployment must not change when one of them does, so all are
kept together, with one digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.uris import is_local, local_path, to_hadoop
from airflow_streaming.model.wire import parse_json

SUFFIXES: Final = (".yml", ".yaml")
STORAGE: Final = "{checkpoint}"
"""The value of ``storage`` in the YAML of a pipeline whose checkpoints are the stream's."""
_FORMAT: Final = "airflow_streaming_pipeline"
_INTERVAL: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)s?")
_USAGE: Final = "Give '--every' with a number of seconds, or '--once'."


def is_pipeline(application: str) -> bool:
    """Tell whether a program is a declarative pipeline: a script never ends like YAML."""
    return application.lower().endswith(SUFFIXES)


def storage_uri(checkpoint: str) -> str:
    """Return a folder of checkpoints as Spark wants a pipeline's storage: with a scheme."""
    return f"file://{local_path(checkpoint)}" if is_local(checkpoint) else to_hadoop(checkpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProgram:
    """
    A pipeline's files, by their path below the folder of its YAML.

    :param spec: Name of the YAML file.
    """

    spec: str
    files: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """Return the same bytes for the same files."""
        value = {_FORMAT: 1, "spec": self.spec, "files": dict(sorted(self.files.items()))}
        return json.dumps(value, indent=1, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> PipelineProgram:
        """
        Read a program.

        :raises RecordError: it is none, or a path in it leaves the folder.
        """
        value = parse_json(data)
        if not isinstance(value, dict) or value.get(_FORMAT) != 1:
            raise RecordError("Not the files of a declarative pipeline. Deploy the stream again.")
        spec, files = value.get("spec"), value.get("files")
        if not isinstance(files, dict) or not _are_texts(files) or spec not in [*files]:
            raise RecordError("The files of a declarative pipeline are damaged. Deploy again.")
        for path in files:
            if not is_inside(path):
                raise RecordError(f"{path!r:.200} leaves the folder of a pipeline. Deploy again.")
        return cls(spec=str(spec), files=files)


def is_inside(path: str) -> bool:
    """Tell whether a path stays below the folder from which it starts."""
    parts = path.split("/")
    return "\\" not in path and "\0" not in path and not {"", ".", ".."} & set(parts)


def _are_texts(files: Mapping[object, object]) -> bool:
    return all(isinstance(one, str) for pair in files.items() for one in pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRhythm:
    """
    When a driver runs updates of its pipeline.

    :param once: One update; the driver ends with it.
    :param every: Seconds from the begin of an update to the begin of the next one. An update that takes longer is
        followed at once.
    """

    once: bool = False
    every: float = 0.0

    def rest_after(self, took: float) -> float:
        """Return the seconds until the next update."""
        return max(0.0, self.every - took)


def rhythm_of(arguments: tuple[str, ...]) -> UpdateRhythm:
    """
    Read the arguments of a pipeline.

    :raises SpecError: another argument than ``--once`` or ``--every SECONDS``.
    """
    match arguments:
        case ():
            return UpdateRhythm()
        case ("--once",):
            return UpdateRhythm(once=True)
        case ("--every", seconds) if found := _INTERVAL.fullmatch(seconds):
            return UpdateRhythm(every=float(found[1]))
    raise SpecError(f"A pipeline does not take the arguments {arguments!r:.200}. {_USAGE}")
