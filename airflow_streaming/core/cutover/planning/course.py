"""Course: how a cutover is to go, as its author and a form say it, before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import (
    DEADLINES,
    CompareTerms,
    CutoverTerms,
    Pair,
    ReadyTerms,
    SwitchWay,
    check_time,
)
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.exceptions import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """
    How a cutover is to go; the fields are those of ``CutoverTerms``.

    :param pointers: What consumers follow outside the home, by name, and whether it moves as one.
    """

    ready: ReadyTerms = field(default_factory=ReadyTerms)
    soak: SoakTerms = field(default_factory=SoakTerms)
    compare: tuple[CompareTerms, ...] = ()
    promotes_by_itself: bool = False
    finalises_by_itself: bool = True
    keeps_blue_running: bool = True
    retain_blue: timedelta = timedelta(days=1)
    deadlines: Mapping[str, timedelta] = field(default_factory=dict)
    pointers: Mapping[str, bool] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    stop_grace: timedelta = timedelta(seconds=60)

    def check(self, streams: tuple[str, ...]) -> None:
        """
        Do nothing for a course that streams can take.

        :raises SpecError: a deadline or a comparison is of something that there is not, or a value
            is none that there can be.
        """
        states = {state.value for state in DEADLINES}
        odd = sorted(set(self.deadlines) - states)
        if odd:
            raise SpecError(f"{odd[0]!r} has no deadline; give {', '.join(sorted(states))}.")
        self._check_values()
        lost = [name for name in self.pointers if "/" in name and name.split("/")[0] not in streams]
        if lost:
            raise SpecError(
                f"Pointer {lost[0]!r} is of no stream that switches: {', '.join(streams)}."
            )
        strangers = sorted({terms.stream for terms in self.compare} - set(streams))
        if strangers:
            raise SpecError(
                f"A comparison is given for stream {strangers[0]!r}, which is not among those that "
                f"switch: {', '.join(streams)}."
            )

    def _check_values(self) -> None:
        check_time("retain_blue", self.retain_blue)
        for state, deadline in self.deadlines.items():
            check_time(f"The deadline of {state!r}", deadline, is_positive=True)
        if not isinstance(self.ready, ReadyTerms):
            raise SpecError(f"ready is {self.ready!r}; give ReadyTerms.")
        if not isinstance(self.soak, SoakTerms):
            raise SpecError(f"soak is {self.soak!r}; give SoakTerms.")
        for one in self.compare:
            if not isinstance(one, CompareTerms):
                raise SpecError(f"compare has {one!r} in it; give CompareTerms.")

    def deadline(self, state: CutoverState) -> timedelta | None:
        """Return how long a state may last; ``None`` for one that may last for ever."""
        return self.deadlines.get(state.value, DEADLINES.get(state))

    def terms(self, way: SwitchWay, pairs: tuple[Pair, ...], key: str) -> CutoverTerms:
        """Return the terms of a cutover that takes this course; its number is given later."""
        return CutoverTerms(
            change=0,
            way=way,
            pairs=pairs,
            ready=self.ready,
            compare=self.compare,
            soak=self.soak,
            promotes_by_itself=self.promotes_by_itself,
            finalises_by_itself=self.finalises_by_itself,
            retain_blue=self.retain_blue,
            keeps_blue_running=self.keeps_blue_running,
            deadlines=self.deadlines,
            pointers=tuple(self.pointers),
            checks=self.checks,
            stop_grace=self.stop_grace,
            key=key,
        )
