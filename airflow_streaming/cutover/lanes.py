"""The lanes that one engine has opened, with what their observers remember."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.change import Change
from airflow_streaming.core.cutover.terms import CutoverTerms, Pair
from airflow_streaming.cutover.ports import LaneHands, LaneSource
from airflow_streaming.home.home import StreamHome


class Lanes:
    """
    Opens each lane once, and knows the cutover's change in it.

    :param leader: The stream in whose base lane cutovers are recorded.
    """

    def __init__(self, leader: str, source: LaneSource) -> None:
        self.leader: Final = leader
        self._source = source
        self._open: dict[str, LaneHands] = {}
        self._guests: dict[tuple[str, int], int] = {}

    @property
    def home(self) -> StreamHome:
        """The home that leads."""
        return self.of(self.leader, self.leader).home

    def of(self, stream: str, lane: str) -> LaneHands:
        """Return the hands of a lane."""
        if lane not in self._open:
            self._open[lane] = self._source.open(stream, lane)
        return self._open[lane]

    def blue(self, pair: Pair) -> LaneHands:
        """Return the hands of the lane that is live when the cutover begins."""
        return self.of(pair.stream, pair.blue)

    def green(self, pair: Pair) -> LaneHands:
        """Return the hands of the other one."""
        return self.of(pair.stream, pair.green)

    def base(self, pair: Pair) -> StreamHome:
        """Return the home that has a stream's live pointer."""
        return self.of(pair.stream, pair.stream).home

    def change_in(self, lane: str, stream: str, change: Change) -> int | None:
        """Return the number of the cutover's change in a lane; ``None`` while it has none."""
        if lane == self.leader:
            return change.number
        key = (lane, change.number)
        if key not in self._guests:
            name = guest_of(self.leader, change.number)
            changes = self.of(stream, lane).home.changes()
            found = [one.number for one in changes if one.leader == name]
            if not found:
                return None
            self._guests[key] = found[-1]
        return self._guests[key]

    def taken(self, lane: str, stream: str, change: Change) -> Change | None:
        """Return the unfinished change of a lane that is none of the cutover's."""
        found = self.of(stream, lane).home.unfinished_change()
        is_lead = lane == self.leader and found is not None and found.number == change.number
        if found is None or is_lead or found.leader == guest_of(self.leader, change.number):
            return None
        return found

    def guests(self, terms: CutoverTerms) -> Iterator[tuple[str, str]]:
        """Return stream and lane of every lane but the leading one."""
        for pair in terms.pairs:
            for lane in (pair.blue, pair.green):
                if lane != self.leader:
                    yield pair.stream, lane

    def memory(self) -> dict[str, object]:
        """Return what all observers remember, by lane."""
        return {lane: hands.observer.memory() for lane, hands in self._open.items()}


def guest_of(leader: str, change: int) -> str:
    """Return what a guest's ``leader`` says."""
    return f"{leader}/{change}"
