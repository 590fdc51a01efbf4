"""
Every error this package raises; each class names its cause.

The dag author acts on ``SpecError``, an engineer on call on ``StreamFailed``, and the driver itself raises
``DriverRefusal``.

Messages have one form: what happened, to which stream or file, and what to do next.
"""

from __future__ import annotations


class StreamingError(Exception):
    """Base of every error of this package."""


class SpecError(StreamingError, ValueError):
    """The stream as written in the dag cannot run; retrying does not help."""


class RuntimeNotFound(SpecError):
    """The named Spark installation is unknown or not usable."""


class ApplicationNotFound(SpecError):
    """The application script cannot be read."""


class NotTheOwner(SpecError):
    """The stream belongs to another dag, which has not handed it over."""


class StreamRemoved(SpecError):
    """The stream was removed, and no user has freed its name."""


class RemovalRefused(StreamingError):
    """A stream cannot be removed now, or its name not be freed."""


class RecordError(StreamingError, ValueError):
    """A record is malformed, too large, or of a version this release does not know."""


class RecordFormatError(RecordError):
    """A record was written by another version of the package, whose records differ from this one's."""


class HomeError(StreamingError):
    """The home cannot be used."""


class HomeUnavailable(HomeError):
    """The home could not be read or written just now."""


class AccessDenied(HomeUnavailable):
    """The user of the process has no right to a part of the home; the rest can be used."""


class LookRefused(HomeUnavailable):
    """
    A page could not look at a home: it hangs, is slow, or too many pages look.

    :param retry_after: Seconds after which looking again may help.
    """

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class HomeNotInitialized(HomeUnavailable):
    """
    The place has no record that a home was ever initialized there.

    An unmounted volume, another host and a wrong bucket look exactly like a new home, and the driver of
    the old one may live. So it is an outage until a user says that the home is new.
    """


class BackupStoreMissing(HomeUnavailable):
    """
    The backup store that a home has used is not in its place.

    An unmounted volume looks like an empty folder, so it is an outage until a user gives the store up.
    """


class HomeNotAllowed(HomeError):
    """The API server does not open this home, or not with this connection."""


class HomeNotExclusive(HomeError):
    """The store under the home does not honor exclusive create."""


class AlreadyExists(StreamingError):
    """
    An exclusive create lost the race.

    :param path: The file that exists already.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} exists already; another process created it first.")
        self.path = path


class CheckpointError(StreamingError):
    """Something is wrong with a checkpoint or with a backup of one."""


class CheckpointRefused(CheckpointError):
    """A checkpoint cannot be backed up, copied or carried over as it is."""


class NothingYet(CheckpointError):
    """A stream has no checkpoint: no driver has committed a batch yet, or the stream was removed."""


class CheckpointBusy(CheckpointError):
    """A live checkpoint changed under every attempt to copy it; trying again may help."""


class BackupNotFound(CheckpointError):
    """The backup store has no backup of that id."""


class BackupDamaged(CheckpointError):
    """A backup differs from its manifest; nothing of it was restored."""


class RestoreRefused(CheckpointError):
    """Restoring now, or to that place, would do harm; nothing was written."""


class RestoreTaken(RestoreRefused):
    """Another task has, or had and finished, the place that was to be restored to."""


class UpgradeRefused(StreamingError):
    """An upgrade cannot begin, or its state refuses the command; nothing was changed."""


class CampaignRefused(StreamingError):
    """A campaign cannot begin, or its state refuses the command; nothing was changed."""


class CutoverRefused(StreamingError):
    """A cutover cannot begin, or its state refuses the command; nothing was changed."""


class PointerRefused(CutoverRefused):
    """The pointer of consumers was written by another program, or a later write stands."""


class PointerFailed(StreamingError):
    """The pointer of consumers could not be moved now; trying again may help."""


class PauseRefused(StreamingError):
    """A pause cannot be opened, or the stream did not stand still in it."""


class CircuitReopened(StreamingError):
    """A circuit was closed and is open all the same."""


class SameCopyRefused(StreamingError):
    """A start would launch the copy that failed before; nothing was changed."""


class DeclarationRefused(StreamingError):
    """A driver cannot be declared dead: it lives, or another one is the newest."""


class LaunchError(StreamingError):
    """The driver process could not be started."""


class StreamFailed(StreamingError):
    """The stream is down and nothing will bring it back until a user acts."""


class DriverRefusal(StreamingError):
    """The script asks the driver for something that would not be safe to run."""


class CheckpointMismatch(DriverRefusal):
    """A query's checkpoint is empty, another query's, or garbled; its state is not there."""


class FencedError(DriverRefusal):
    """A newer epoch exists: another driver owns the stream."""


class StopRequested(DriverRefusal):
    """Raised at a batch boundary of a stream that is being stopped."""


def closed(said: object) -> str:
    """Return what others have said, such as an error or a cluster, as the end of a sentence."""
    text = str(said)
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
