"""The launchers of this package by name, and how long their drivers may take to stop."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

LOCAL: Final = "local"
STANDALONE: Final = "standalone"
KUBERNETES: Final = "kubernetes"
YARN: Final = "yarn"
APACHE_OPERATOR: Final = "apache-operator"
KUBEFLOW_OPERATOR: Final = "kubeflow-operator"
OWN_LAUNCHERS: Final = (
    *(LOCAL, STANDALONE, KUBERNETES, YARN),
    *(APACHE_OPERATOR, KUBEFLOW_OPERATOR),
)
"""Names of the launchers of this package; others come by an entry point."""
MAX_STOP_GRACE: Final = timedelta(days=1)
"""No stop waits longer for a batch boundary; it bounds a damaged record."""
USUAL_STOP_GRACE: Final = timedelta(seconds=60)
"""How long a stop may wait for a batch boundary when the stream's dag does not say."""


def near_launcher(name: str) -> str | None:
    """Return the launcher of this package that is spelled like another name, but for case and dashes."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    return plain if plain in OWN_LAUNCHERS and plain != name else None
