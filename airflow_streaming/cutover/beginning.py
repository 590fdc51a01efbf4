"""
Beginning a cutover: all that speaks against it is said before anything is written.

Scripts and terms are kept first, under names that hold their digests; the change's record in the
leading stream begins the cutover. Whoever dies before that leaves files in nobody's way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.cutover.terms import CutoverTerms, Pair, SwitchWay
from airflow_streaming.core.lanes import base_of, other_lane
from airflow_streaming.cutover.lanes import Lanes
from airflow_streaming.cutover.recording import Recorder, close_orphan
from airflow_streaming.exceptions import AlreadyExists, CutoverRefused, RecordError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.lanes import live_lane
from airflow_streaming.launch.switching import words


class Beginning:
    """Begins cutovers that one stream leads."""

    def __init__(self, lanes: Lanes, recorder: Recorder) -> None:
        self._lanes, self._recorder = lanes, recorder

    def begin(self, terms: CutoverTerms, sources: Mapping[str, bytes], reason: str) -> Change:
        """
        Open the change, or find the one that was opened for the same.

        :raises CutoverRefused: with the reason; nothing was recorded.
        :raises SpecError: a deployment could not be launched with what the dag gives now.
        """
        found = self.found(terms)
        if found is not None:
            return found
        self._check(terms)
        change = self._keep(terms, sources, reason)
        try:
            self._lanes.home.begin_change(change)
        except AlreadyExists as err:
            found = self.found(terms)
            if found is not None:
                return found
            raise self._refused(
                "somebody else began to change it at the same moment. Look what became of it "
                "before you ask again."
            ) from err
        return change

    def found(self, terms: CutoverTerms) -> Change | None:
        """Return the cutover that was begun for the same wish."""
        home = self._lanes.home
        newest = home.newest_change()
        if newest is None or newest.what is not ChangeSort.CUTOVER or newest.leader:
            return None
        try:
            known = home.cutover_terms(newest)
        except RecordError:
            return None
        is_same = known.key == terms.key if terms.key else known.digest == terms.digest
        is_open = home.change_end(newest.number) is None
        return newest if is_same and (is_open or terms.key) else None

    def _check(self, terms: CutoverTerms) -> None:
        if not terms.pairs or terms.leader.stream != self._lanes.leader:
            raise self._refused("its terms name no pair of this stream first.")
        streams = [pair.stream for pair in terms.pairs]
        if len(set(streams)) != len(streams):
            raise self._refused("one stream is named twice.")
        for pair in terms.pairs:
            self._check_pair(pair, terms.way)

    def _check_pair(self, pair: Pair, way: SwitchWay) -> None:
        if base_of(pair.blue) != pair.stream or pair.green != other_lane(pair.blue):
            raise self._refused(f"{pair.blue} and {pair.green} are not the two lanes of a stream.")
        for lane in (pair.stream, other_lane(pair.stream)):
            home = self._lanes.of(pair.stream, lane).home
            unfinished = home.unfinished_change()
            if unfinished is not None and not self._was_orphan(home, unfinished):
                raise self._refused(
                    f"lane {lane} has an unfinished change: {words(unfinished)} Finish it first."
                )
        self._check_blue(pair)
        self._check_green(pair, way)

    def _was_orphan(self, home: StreamHome, change: Change) -> bool:
        by, now = self._recorder.by, self._recorder.now
        return close_orphan(home, change, by=by, now=now)

    def _check_blue(self, pair: Pair) -> None:
        home = self._lanes.blue(pair).home
        lane = live_lane(Home(home.store), pair.stream)
        if lane != pair.blue:
            raise self._refused(f"lane {lane} of stream {pair.stream} is live, not {pair.blue}.")
        current, desired = home.newest_deployment(), home.desired()
        if current is None or current.number != pair.blue_deployment:
            raise self._refused(f"{pair.blue} no longer has deployment {pair.blue_deployment}.")
        if home.newest_epoch() is None:
            raise self._refused(f"{pair.blue} has never run. Deploy the new version instead.")
        if desired is not None and desired.state is DesiredState.STOPPED:
            raise self._refused(
                f"{pair.blue} is wanted stopped, and green is judged beside it. Start it first."
            )

    def _check_green(self, pair: Pair, way: SwitchWay) -> None:
        hands = self._lanes.green(pair)
        newest = hands.home.newest_deployment()
        expected = newest.number + 1 if newest else 1
        if pair.shadow.number != expected:
            raise self._refused(
                f"{pair.green} has {expected - 1} deployments, and the next one is not "
                f"{pair.shadow.number}. Propose it anew."
            )
        blue = self._lanes.blue(pair).home.deployment(pair.blue_deployment)
        if pair.shadow.checkpoint == blue.checkpoint or pair.shadow.output == blue.output:
            raise self._refused(f"{pair.green} would write where {pair.blue} writes.")
        if way is SwitchWay.HANDOVER:
            self._check_handover(pair, blue.output)
        elif pair.live != pair.shadow:
            raise self._refused("with parallel outputs green goes live as it is.")
        if hands.keeper is not None:
            hands.keeper.check_can_launch(pair.shadow)

    def _check_handover(self, pair: Pair, output: str) -> None:
        is_next = pair.live.number == pair.shadow.number + 1
        if not is_next or pair.live.output != output:
            raise self._refused(
                "green's live deployment has to be the next one, with blue's output."
            )
        if pair.live.checkpoint != pair.shadow.checkpoint and pair.stateful:
            raise self._refused(
                f"queries with state ({', '.join(pair.stateful)}) cannot leave their checkpoint."
            )
        if not pair.queries:
            raise self._refused("its queries are not known, and each is handed over by itself.")

    def _keep(self, terms: CutoverTerms, sources: Mapping[str, bytes], reason: str) -> Change:
        home, leader = self._lanes.home, terms.leader
        numbered = replace(terms, change=home.next_change())
        for pair in terms.pairs:
            green = self._lanes.green(pair).home
            for deployment in dict.fromkeys((pair.shadow.number, pair.live.number)):
                kept = pair.shadow if deployment == pair.shadow.number else pair.live
                green.keep_application(kept, sources[pair.stream])
        return Change(
            number=numbered.change,
            stream=home.name,
            what=ChangeSort.CUTOVER,
            replaced=leader.blue_deployment,
            deployment=leader.live.number,
            checkpoint=leader.live.checkpoint,
            by=self._recorder.by,
            reason=reason or f"Cutover from {leader.blue} to {leader.green}.",
            at=self._recorder.now,
            terms=home.keep_cutover_terms(numbered),
        )

    def _refused(self, why: str) -> CutoverRefused:
        return CutoverRefused(f"Stream {self._lanes.leader!r} is not cut over: {why}")
