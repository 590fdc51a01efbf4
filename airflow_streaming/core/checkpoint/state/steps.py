"""
Steps: which file of a store stands for which version, on the way to one version.

In format 1 the name tells. In format 2 there may be several files of one version, and only the
ancestors of the wanted one count: its changelog names them, and so do earlier commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.core.checkpoint.listing import Listing, Read
from airflow_streaming.core.checkpoint.report import StoreType
from airflow_streaming.core.checkpoint.state.lineage import lineage
from airflow_streaming.core.checkpoint.state.names import StateFile, StateForm
from airflow_streaming.core.checkpoint.state.stores import StoreRef, state_files, store_type
from airflow_streaming.exceptions import RecordError

MAX_CHANGELOG_BYTES: Final = 64 * 1024 * 1024
"""Larger changelogs are not asked for their ancestors; the commit log then tells them."""

_WHOLE: Final = frozenset({StateForm.SNAPSHOT, StateForm.ZIP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """
    Why no way to a version can be shown.

    :param is_unknown: There may be one all the same.
    """

    path: str
    why: str
    is_unknown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """
    The files on the way to one version.

    :param bases: Snapshots and zips, by version.
    :param changes: Deltas and changelogs, by version.
    :param logged: Versions that have a delta or changelog, of whatever id.
    :param ids: Unique id of each version, as far as known; ``None`` in format 1.
    :param is_told_by_changelog: The ids are the changelog's, and Spark goes by no others.
    :param conflict: How changelog and commit log differ about the ids.
    """

    store_type: StoreType
    version: int
    bases: Mapping[int, StateFile]
    changes: Mapping[int, StateFile]
    logged: frozenset[int] = frozenset()
    ids: Mapping[int, str] | None = None
    is_told_by_changelog: bool = False
    conflict: str = ""

    def bases_from_newest(self) -> list[int]:
        """Return the versions to start from, newest first, ending with the empty state."""
        return [*sorted(self.bases, reverse=True), 0]

    def expected_name(self, version: int) -> str | None:
        """Return the name of the file that should lead to a version; ``None`` when unknown."""
        if self.ids is None:
            return f"{version}.{self._expected_form(version)}"
        if version in self.ids:
            return f"{version}_{self.ids[version]}.{self._expected_form(version)}"
        if not self.is_told_by_changelog:
            return None
        # A changelog goes back to the snapshot from which its task had started.
        oldest = min(self.ids)
        return f"{oldest}_{self.ids[oldest]}.{StateForm.ZIP}"

    def _expected_form(self, version: int) -> StateForm:
        if self.store_type is StoreType.HDFS:
            return StateForm.DELTA
        # Without changelogs every version has a zip; changelogs can be switched on and off.
        is_logged = not self.logged.isdisjoint((version - 1, version, version + 1))
        return StateForm.CHANGELOG if is_logged else StateForm.ZIP


def steps_to(
    listing: Listing, read: Read, ref: StoreRef, version: int, ids: Mapping[int, str] | None
) -> Steps | Unknown:
    """Return the files on the way to a version; see ``files_for``."""
    files = state_files(listing, ref)
    if version == 0:
        return Steps(store_type=store_type(files), version=0, bases={}, changes={})
    if not files:
        why = f"{ref.folder} holds no state files; Spark needs version {version} of it."
        return Unknown(path=ref.folder, why=why, is_unknown=False)
    if ids is None:
        return _by_name(files, ref, version)
    if version not in ids:
        why = f"No commit tells the id of version {version} in {ref.folder}."
        return Unknown(path=ref.folder, why=why, is_unknown=True)
    return _by_id(files, read, ref, version, ids)


def _by_name(files: list[StateFile], ref: StoreRef, version: int) -> Steps | Unknown:
    if all(file.unique_id is not None for file in files):
        why = f"The files in {ref.folder} have ids, and no commit tells which of them count."
        return Unknown(path=ref.folder, why=why, is_unknown=True)
    return _steps(files, {}, version)


def _by_id(
    files: list[StateFile], read: Read, ref: StoreRef, version: int, ids: Mapping[int, str]
) -> Steps:
    own = {version: ids[version]}
    told = {step: unique_id for step, unique_id in ids.items() if step < version}
    forms = {file.form: file for file in files if file[:2] == (version, ids[version])}
    changelog = forms.get(StateForm.CHANGELOG)
    if forms.keys() & _WHOLE:
        # A zip of the version itself needs no ancestors, and Spark does not look for any.
        return replace(_steps(files, own, version), ids=own)
    ancestors = None if changelog is None else _ancestors(read, ref, changelog)
    if ancestors is None:
        known = {**told, **own}
        return replace(_steps(files, known, version), ids=known)
    known = {**ancestors, **own}
    return replace(
        _steps(files, known, version),
        ids=known,
        is_told_by_changelog=True,
        conflict=_conflict(told, ancestors),
    )


def _ancestors(read: Read, ref: StoreRef, changelog: StateFile) -> Mapping[int, str] | None:
    # Where it cannot be read the commit log has to do: its own damage is for others to find.
    try:
        data = read(f"{ref.folder}/{changelog.name}", MAX_CHANGELOG_BYTES)
        listed = lineage(data or b"")
    except RecordError:
        return None
    return {step: unique_id for step, unique_id in listed if step < changelog.version}


def _conflict(told: Mapping[int, str], ancestors: Mapping[int, str]) -> str:
    for step in sorted(told.keys() & ancestors.keys()):
        if told[step] != ancestors[step]:
            return (
                f"The changelog goes back to {ancestors[step]} for version {step}, "
                f"the commit log to {told[step]}."
            )
    return ""


def _steps(files: list[StateFile], ids: Mapping[int, str], version: int) -> Steps:
    # Files of format 1 have no id, and no version of it has one.
    own = [
        file
        for file in files
        if file.version <= version and file.unique_id == ids.get(file.version)
    ]
    return Steps(
        store_type=store_type(files),
        version=version,
        bases={file.version: file for file in own if file.form in _WHOLE},
        changes={file.version: file for file in own if file.form not in _WHOLE},
        logged=frozenset(file.version for file in files if file.form not in _WHOLE),
    )
