"""
The cutovers of a stream: terms, steps, what checks have shown, and the guests in other lanes.

A cutover is recorded in the home of the leading stream's base lane. Every other lane that it
touches has a guest: a change of the same sort that names the leader and keeps everybody else from
changing that lane meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.cutover.judging.checks import CheckResult
from airflow_streaming.core.cutover.terms import CutoverTerms
from airflow_streaming.core.cutover.transition import Transition, state_of
from airflow_streaming.core.names import is_path_part, is_sha256, numbered
from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.folder import StreamFolder


class Cutovers(StreamFolder):
    """Read and record the cutovers that one stream leads."""

    def keep_cutover_terms(self, terms: CutoverTerms) -> str:
        """Keep the terms of a cutover that is about to be begun; return their digest."""
        digest = terms.digest
        path = self._cutover_terms(terms.change, digest)
        self._create_or_read(terms, path, change=terms.change)
        return digest

    def cutover_terms(self, change: Change) -> CutoverTerms:
        """
        Return the terms of a cutover, from the home that leads it.

        :raises RecordError: they are missing, or not what the change was begun with.
        """
        path = self._cutover_terms(change.number, change.terms)
        found = self._read(CutoverTerms, path, change=change.number, digest=change.terms)
        if found is None:
            raise RecordError(
                f"{self._shown(path)} is missing, so change {change.number} of stream "
                f"{self.name!r} cannot go on. Put the file back."
            )
        return found

    def steps(self, number: int, known: Sequence[Transition] = ()) -> list[Transition]:
        """
        Return the history of a cutover, oldest step first; without gaps.

        :param known: What was read of it before: a step never changes.
        :raises RecordError: a step is missing though a later one is there, or a step does not begin
            where the one before it ended. A hole taken for the end would be filled with a new step,
            and all the later ones would tell of another course.
        """
        history = list(known)
        newest = max(self._numbers(f"changes/{numbered(number)}/steps"), default=0)
        while len(history) < newest:
            # Read whether it is listed or not: a store may list a newer file before an older one.
            step = self._step(number, len(history) + 1, newest)
            history.append(self._following(history, step))
        return history

    def take_step(self, step: Transition) -> Transition:
        """
        Take the next step; return the one that counts under its number.

        Whoever gets another one back than he gave was too late, and looks again.
        """
        path = self._step_path(step.change, step.number)
        return self._create_or_read(step, path, change=step.change, number=step.number)

    def check_results(self, number: int, step: int) -> dict[str, CheckResult]:
        """Return by name what checks have shown in the stay that began with a step."""
        names = self.store.names(self._layout.change_file(number, "checks"))
        prefix = f"{numbered(step)}-"
        wanted = [name for name in names if name.startswith(prefix) and name.endswith(".json")]
        found: dict[str, CheckResult] = {}
        for name in wanted:
            check = name.removeprefix(prefix).removesuffix(".json")
            path = self._layout.change_file(number, f"checks/{name}")
            result = self._read(CheckResult, path, change=number, step=step, name=check)
            if result is not None:
                found[check] = result
        return found

    def record_check(self, result: CheckResult) -> CheckResult:
        """
        Record what a check has shown; the first result of a stay counts.

        :raises RecordError: its name cannot be a file name.
        """
        if not is_path_part(result.name):
            raise RecordError(f"The check's name {result.name!r} cannot be used as a file name.")
        name = f"checks/{numbered(result.step)}-{result.name}.json"
        path = self._layout.change_file(result.change, name)
        return self._create_or_read(
            result, path, change=result.change, step=result.step, name=result.name
        )

    def leader_of(self, change: Change) -> tuple[Self, int]:
        """Return the records of the stream that leads a cutover, and the number it has there."""
        leader, _, number = change.leader.rpartition("/")
        is_guest = bool(leader) and number.isdecimal()
        return (self.beside(leader), int(number)) if is_guest else (self, change.number)

    def leads(self, change: Change) -> bool:
        """Tell whether a change of this home is a cutover that this home leads."""
        return change.what is ChangeSort.CUTOVER and not change.leader

    def _following(self, history: Sequence[Transition], step: Transition) -> Transition:
        before = state_of(history)
        if step.before is not before:
            path = self._shown(self._step_path(step.change, step.number))
            raise RecordError(
                f"{path} is no step of this cutover of {self.name!r}: it begins in "
                f"{step.before.value!r}, and the step before it ended in {before.value!r}. Put back "
                "what was there."
            )
        return step

    def _step(self, change: int, number: int, newest: int) -> Transition:
        path = self._step_path(change, number)
        found = self._read(Transition, path, change=change, number=number)
        if found is None:
            raise RecordError(
                f"Step {number} of cutover {change} of {self.name!r} is missing though step "
                f"{newest} is there: {self._shown(path)}. Put back what was there; until then "
                "nothing is done."
            )
        return found

    def _step_path(self, change: int, number: int) -> str:
        return self._layout.change_file(change, f"steps/{numbered(number)}.json")

    def _cutover_terms(self, number: int, digest: str) -> str:
        if not is_sha256(digest):
            raise RecordError(
                f"Change {number} of stream {self.name!r} names no terms. It is no cutover that "
                "this stream leads, or its record was changed."
            )
        return self._layout.change_file(number, f"terms-{digest[:16]}.json")
