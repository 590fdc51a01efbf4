"""The files of a declarative pipeline: found as Spark finds them, and checked before a driver is started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import ApplicationNotFound, SpecError, closed
from airflow_streaming.model.pipeline.program import (
    STORAGE,
    PipelineProgram,
    is_inside,
    storage_uri,
)
from airflow_streaming.model.uris import is_local, local_path
from airflow_streaming.model.wire import MAX_RECORD_BYTES

FIRST_WITH_PIPELINES: Final = (4, 1)
MOST_FILES: Final = 1_000
_MINOR: Final = re.compile(r"(\d+)\.(\d+)")
_CODE: Final = (".py", ".sql")
_RECURSIVE: Final = "/**"
_MAGIC: Final = frozenset("*?[")


def read_pipeline(location: str) -> bytes:
    """
    Return the files of a pipeline as one text.

    :param location: Path of its YAML file.
    :raises ApplicationNotFound: a file is missing or wrong, or all are too large.
    """
    if not is_local(location):
        raise ApplicationNotFound(
            f"Pipeline {location!r} is not on this machine, and its files are found by globs. Give a local path."
        )
    spec = Path(local_path(location))
    files = {spec.name: _text(spec)}
    for path in _sources(spec.parent, _parsed(spec, files[spec.name])):
        name = path.relative_to(spec.parent).as_posix()
        files[name] = _text(path)
        _check_code(path, files[name])
        if len(files) > MOST_FILES:
            raise ApplicationNotFound(
                f"Pipeline {location!r} has more than {MOST_FILES} files. Narrow the globs of its libraries."
            )
    data = PipelineProgram(spec=spec.name, files=files).to_bytes()
    if len(data) > MAX_RECORD_BYTES:
        raise ApplicationNotFound(
            f"The files of pipeline {location!r} are larger than {MAX_RECORD_BYTES} bytes. Put libraries into py_files."
        )
    return data


def check_runs_pipelines(spark_version: str) -> None:
    """
    Check that a runtime can run declarative pipelines.

    :raises SpecError: its Spark is older than 4.1.
    """
    found = _MINOR.match(spark_version)
    if found is not None and (int(found[1]), int(found[2])) < FIRST_WITH_PIPELINES:
        raise SpecError(
            f"Spark {spark_version} has no declarative pipelines; they need 4.1 or newer. Choose another runtime."
        )


def check_storage(source: bytes, checkpoint: str | None) -> None:
    """
    Check that the flows keep their checkpoints where the stream's are.

    :param source: A pipeline as ``read_pipeline`` returns it.
    :param checkpoint: The ``checkpoint`` of the stream's spec.
    :raises ApplicationNotFound: the YAML names another place, where the flows may have been run before.
    """
    program = PipelineProgram.from_bytes(source)
    storage = _parsed(Path(program.spec), program.files[program.spec])["storage"]
    if storage == STORAGE or (checkpoint and storage_uri(checkpoint) == storage_uri(storage)):
        return
    raise ApplicationNotFound(
        f"storage in {program.spec} is {storage!r:.200}, and the stream keeps its checkpoints elsewhere. Write "
        f"storage: '{STORAGE}'. If the pipeline has run before, give StreamSpec(checkpoint={storage!r:.200}) as well, "
        "so that its flows continue."
    )


def _parsed(spec: Path, text: str) -> dict[str, Any]:
    import yaml  # heavy

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise ApplicationNotFound(f"Pipeline {str(spec)!r} is not valid YAML: {err}") from err
    if not isinstance(value, dict):
        raise ApplicationNotFound(
            f"Pipeline {str(spec)!r} is not a mapping. Give name, storage and libraries."
        )
    for key in ("name", "storage"):
        if not isinstance(value.get(key), str):
            raise ApplicationNotFound(f"Pipeline {str(spec)!r} has no text as {key}. Add it.")
    return value


def _sources(folder: Path, spec: dict[str, Any]) -> Iterator[Path]:
    globs = list(_globs(spec))
    found = sorted({path for glob in globs for path in folder.glob(glob) if path.is_file()})
    code = [path for path in found if "__pycache__" not in path.parts]
    if not code:
        raise ApplicationNotFound(
            f"The libraries of the pipeline in {folder} name no file: {', '.join(globs) or 'they are empty'}. Add e.g. "
            "'- glob: {include: transformations/**}'."
        )
    yield from code


def _globs(spec: dict[str, Any]) -> Iterator[str]:
    libraries = spec.get("libraries")
    for entry in libraries if isinstance(libraries, list) else ():
        glob = entry.get("glob") if isinstance(entry, dict) else None
        include = glob.get("include") if isinstance(glob, dict) else None
        path = str(include).removesuffix(_RECURSIVE)
        if not isinstance(include, str) or not is_inside(path) or _MAGIC & set(path):
            raise ApplicationNotFound(
                f"{entry!r:.200} in the libraries of the pipeline names no files. Give a file below the pipeline's folder, "
                "or a folder followed by /**."
            )
        yield f"{path}/**/*" if include.endswith(_RECURSIVE) else path


def _check_code(path: Path, text: str) -> None:
    if path.suffix not in _CODE:
        raise ApplicationNotFound(
            f"{str(path)!r} is neither Python nor SQL. Keep it out of the libraries."
        )
    if path.suffix == ".py":
        try:
            compile(text, str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as err:
            raise ApplicationNotFound(f"{str(path)!r} is not valid Python: {err}") from err


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as err:
        raise ApplicationNotFound(
            f"{str(path)!r} of a pipeline cannot be read: {closed(str(err))} Check the path and the rights of the "
            "Airflow worker."
        ) from err
