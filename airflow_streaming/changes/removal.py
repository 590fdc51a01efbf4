"""
Decide whether a stream may be removed, and which paths a removal deletes; nothing is done here.

The newest epoch of each folder is a fence and stays. The changes, desired states and moves of the live pointer stay
too. So numbers never decrease, and an old driver or task finds its fence. The timeline names the user, the reason and
the backup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.exceptions import closed
from airflow_streaming.model.names import numbered
from airflow_streaming.model.observation import DriverLiveness
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.uris import overlap

EPOCHS: Final = "epochs"
OUTPUT: Final = "output"
_GOES: Final = (
    *("alerts", "checkpoints", "queries", "sizes", "supervision", "owners", "repairs"),
    *("deviations", "rehearsals", "run_reports", "freshness", "batch_pauses"),
    *(OUTPUT, "deployments"),
)
"""Folders of a lane that are deleted whole, in their order. A lane with deployments is listed, so these are last."""
_STAYS: Final = frozenset(
    {"changes", "circuit", "desired", "events", "live", "removals", EPOCHS}
    # Another stream of this name announces no window a second time.
    | {"windows", "window_requests"}
)
ENDED: Final = frozenset({DriverLiveness.NONE, DriverLiveness.DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFolder:
    """
    A folder of the stream: a lane, or the standby drivers of a lane.

    :param fate: State of the newest driver, with its ``evidence``.
    :param newest: The number of the newest epoch; 0 before the first.
    :param epochs: Files and folders of its epochs.
    :param links: Symbolic links among ``names`` and ``epochs``, as paths below the folder.
    """

    name: str
    fate: DriverLiveness
    evidence: str
    newest: int = 0
    names: tuple[str, ...] = ()
    epochs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalFacts:
    """
    Facts on which a removal depends.

    :param is_stopped: The desired state of the live lane is "stopped".
    :param change: The open change of a lane.
    :param dag: The DAG that owns the stream; empty when it has no owner.
    :param has_released: The DAG no longer keeps the stream, according to the user or Airflow.
    :param places: URIs that would be deleted.
    :param used: Checkpoints and outputs of other streams, and the store of the backup.
    :param links: Symbolic links among the paths that would be deleted.
    :param unread: Why the use by other streams is unknown, a sentence each.
    """

    stream: str
    folders: tuple[LaneFolder, ...]
    is_stopped: bool
    change: Change | None = None
    dag: str = ""
    has_released: bool = False
    places: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def refusals(facts: RemovalFacts) -> Iterator[str]:
    """Yield each reason against the removal, with the remedy."""
    name = facts.stream
    if facts.change is not None:
        yield (
            f"Change {facts.change.number} ({facts.change.what}) of {facts.change.stream} is open. Finish it "
            "or give it up first."
        )
    if not facts.is_stopped:
        yield (
            f'The desired state of {name} is not "stopped". Stop the stream: airflow-streaming stop {name} '
            "--wait 300."
        )
    for folder in facts.folders:
        if folder.fate not in ENDED:
            yield (
                f"The driver of epoch {folder.newest} of {folder.name} is not proved dead: "
                f"{closed(folder.evidence)} Stop the stream and wait for its end, or, when no machine can see "
                "the driver any more, declare it dead."
            )
    if facts.dag and not facts.has_released:
        yield (
            f"DAG {facts.dag!r} owns {name}, and its task would start the stream again. Take the stream out of the "
            f"DAG, then confirm it: --released-by {facts.dag}."
        )
    for place in facts.places:
        for used in facts.used:
            if overlap(place, used):
                yield f"{used} is in use elsewhere and would go with {place}. Move it, or keep the output."
    for link in facts.links:
        yield (
            f"{link} is a symbolic link, and a removal follows no link. Move the folder to its place, or delete "
            "the link to keep the folder."
        )
    yield from facts.unread


def going(folder: LaneFolder, *, keep_output: bool) -> Sequence[str]:
    """
    Return the paths below a folder to delete, in their order.

    Files of other programs, such as notes of a user, stay.
    """
    whole = [one for one in _GOES if one in folder.names and not (keep_output and one == OUTPUT)]
    fence = numbered(folder.newest) if folder.newest else ""
    # The record first: after a kill, the folder without a record is found by its name.
    old = sorted(
        (one for one in folder.epochs if one.partition(".")[0] != fence),
        key=lambda one: (one.partition(".")[0], not one.endswith(".json")),
    )
    return [f"{EPOCHS}/{one}" for one in old] + whole


def strangers(folder: LaneFolder) -> list[str]:
    """Return the names in a folder that this provider does not write."""
    return sorted(set(folder.names) - set(_GOES) - _STAYS)
