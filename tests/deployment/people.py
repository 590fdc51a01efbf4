"""
Make one user of each role in FAB, and a team with the rights on its own dags only.

    python -m tests.deployment.people DAG...

The password of a user is the user's name. Everything listens on the loopback address only.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

from tests.deployment.profiles import ROLES, TEAM, team_rights


def main(dags: list[str]) -> None:
    """Make the users."""
    with get_application_builder() as builder:
        security: Any = builder.sm
        team = security.add_role(TEAM)
        for action, resource in team_rights(dags):
            security.add_permission_to_role(team, security.create_permission(action, resource))
        for name in (*ROLES, TEAM):
            role = security.find_role(name)
            mail = f"{name.lower()}@example.org"
            user = security.add_user(name.lower(), name, name, mail, role, password=name.lower())
            if not user:
                raise SystemExit(f"User {name.lower()} cannot be made.")


if __name__ == "__main__":
    main(sys.argv[1:])
