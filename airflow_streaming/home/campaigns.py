"""
The campaigns of a home: a record and numbered steps each, in the folder ``_fleet``.

A campaign reserves its streams by its number: of two campaigns on one stream the lower number counts, and the other
one is refused. Numbers come from exclusive creates, so the later campaign always sees the earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.home.folder import APPEND_TRIES, StreamFolder
from airflow_streaming.model.names import FLEET, FleetLayout
from airflow_streaming.model.records.campaign import Campaign, CampaignStep
from airflow_streaming.model.storage import Store
from airflow_streaming.storage.one_look import look_at_each


class Campaigns(StreamFolder):
    """Read and record the campaigns of a home."""

    def __init__(self, store: Store) -> None:
        self.store, self.name, self._layout = store, FLEET, FleetLayout()

    def numbers(self) -> list[int]:
        """Return the numbers of all campaigns, in order."""
        return self._numbers_of(Campaign)

    def campaign(self, number: int) -> Campaign:
        """
        Return a campaign.

        :raises RecordError: it does not exist, or its record is damaged.
        """
        try:
            return self._numbered(Campaign, number)
        except RecordError as err:
            raise RecordError(
                f"{err} Restore the original file: it may have streams that another campaign wants."
            ) from err

    def begin(self, campaign: Campaign) -> bool:
        """Record a campaign; tell whether its number was free."""
        return self._create(campaign)

    def steps(self, number: int, known: Sequence[CampaignStep] = ()) -> list[CampaignStep]:
        """
        Return the steps of a campaign, oldest first; without gaps.

        :param known: Steps that were read before: a step never changes.
        :raises RecordError: a step is missing though a later one exists.
        """
        newest = max(self._numbers_of(CampaignStep, campaign=number), default=0)
        missing = range(len(known) + 1, newest + 1)
        return [*known, *look_at_each(self.store, lambda one: self._step(number, one), missing)]

    def take(self, step: CampaignStep) -> bool:
        """Record a step; tell whether it is the next one. If not, another process was first."""
        return self._create(step)

    def _step(self, campaign: int, number: int) -> CampaignStep:
        found = self._get(CampaignStep, campaign=campaign, number=number)
        if found is None:
            path = self._layout.place(CampaignStep, campaign=campaign, number=number)
            raise RecordError(
                f"Step {number} of campaign {campaign} is missing, but a later one exists: "
                f"{self._shown(path)}. Restore the original file; the campaign is blocked until then."
            )
        return found

    def never_first(self, what: str) -> HomeUnavailable:
        """Return the error of a writer that lost every try."""
        return HomeUnavailable(
            f"{what} was not recorded: {APPEND_TRIES} times another process was first. Try again."
        )
