"""Queues of triggerers, and the queue whose triggerer watches a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.exceptions import SpecError

MOST_QUEUES: Final = 100
LONGEST_QUEUE: Final = 256
"""Characters of a queue in Airflow's table of triggers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerQueues:
    """
    The queues among which streams are shared; without names each trigger has the queue of its task.

    :param label: Key of a label whose value names the queue of a stream; empty for none.
    """

    names: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(dict.fromkeys(self.names)))
        if len(self.names) > MOST_QUEUES:
            raise SpecError(
                f"[streaming] trigger_queues has {len(self.names)} queues; name at most {MOST_QUEUES}."
            )
        for name in self.names:
            if len(name) > LONGEST_QUEUE or not name.isprintable():
                raise SpecError(
                    f"[streaming] trigger_queues has {name!r:.80}; a queue has at most {LONGEST_QUEUE} "
                    "printable characters."
                )
        if self.label and not self.names:
            raise SpecError(
                f"[streaming] trigger_queue_label is {self.label!r:.80} and trigger_queues is empty. Name the "
                "queues, or remove the label."
            )

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> TriggerQueues:
        """Return the queues as ``to_dict`` has encoded them."""
        return cls(names=tuple(told.get("names", ())), label=told.get("label", ""))

    def to_dict(self) -> dict[str, Any]:
        """Return the queues as values of JSON."""
        return {"names": [*self.names], "label": self.label}

    def queue_of(self, stream: str, labels: Mapping[str, str]) -> str | None:
        """
        Return the queue of a stream's triggers; ``None`` without names.

        A label that names one of the queues decides, otherwise the highest digest of queue and stream: of
        N queues a new one takes a share of 1/N, and a removed one gives up its own streams alone.
        """
        if self.label and (named := labels.get(self.label)) in self.names:
            return named
        return max(self.names, key=lambda name: _weight(name, stream), default=None)


NO_QUEUES: Final = TriggerQueues()


def _weight(queue: str, stream: str) -> bytes:
    return hashlib.sha256(f"{queue}\0{stream}".encode()).digest()
