"""
Hands messages to notifiers without waiting for them longer than a limit.

A notifier is code of others that talks to servers of others: it may raise, take minutes, or never
come back. Each gets a thread of its own, which goes through the messages in their order, and all of
them together get one time limit. The threads are daemons, so that a task can end beside one that
hangs.
"""

from __future__ import annotations

import contextvars
import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import Any, Final

from airflow.sdk import BaseNotifier

from airflow_streaming.core.alerts.alert import Alert
from airflow_streaming.core.failures.text import presentable

log: Final = logging.getLogger(__name__)

Notifier = Callable[[Any], Any]
"""A notifier of Airflow, or any callable that takes a context."""

Notifiers = Notifier | Sequence[Notifier] | None
"""What a dag gives: one, several, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """
    One message for one notifier.

    :param context: What the notifier is called with; it gets a copy.
    """

    alert: Alert
    notifier: Notifier
    context: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return what the notifier is called in logs and records."""
        return getattr(self.notifier, "__name__", type(self.notifier).__name__)


def as_list(notifiers: Notifiers) -> list[Notifier]:
    """Return one, several or no notifiers as a list."""
    if notifiers is None:
        return []
    return [notifiers] if callable(notifiers) else list(notifiers)


def hand_over(parcels: Sequence[Parcel], *, limit: timedelta) -> list[str]:
    """
    Call the notifiers, for as long as the limit lasts.

    :returns: For every parcel why it was not taken; empty for one that was.
    """
    faults = ["no answer in time"] * len(parcels)
    rounds: dict[int, list[int]] = {}
    for index, parcel in enumerate(parcels):
        rounds.setdefault(id(parcel.notifier), []).append(index)
    deadline = time.monotonic() + limit.total_seconds()
    threads = [_start(parcels, indices, faults) for indices in rounds.values()]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(faults)  # a late thread goes on writing into its own list


def _start(parcels: Sequence[Parcel], indices: Sequence[int], faults: list[str]) -> Thread:
    def deliver() -> None:
        for index in indices:
            faults[index] = _call(parcels[index])

    # Airflow's log processors and its current task live in context variables.
    run = contextvars.copy_context().run
    thread = Thread(target=run, args=(deliver,), name="alerts", daemon=True)
    thread.start()
    return thread


def _call(parcel: Parcel) -> str:
    notifier = parcel.notifier
    if isinstance(notifier, BaseNotifier):
        # A notifier renders its templates into itself, so that a second call would send the first
        # message again; and it adds its fields to the context it is given.
        notifier = copy.copy(notifier)
    try:
        notifier(dict(parcel.context))
    except BaseException as err:  # noqa: BLE001 - whatever it is, it ends here
        # Messages of HTTP errors quote the address, and a webhook's address is its password.
        log.warning("%s did not take an alert: %s", parcel.label, type(err).__name__)
        log.debug("%s", presentable(repr(err)))
        # Messages of HTTP errors quote the address, and the address of a webhook is its password.
        # So records get the class only.
        return type(err).__name__
    return ""
