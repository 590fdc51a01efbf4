"""What a dag file needs to describe a stream; light to import."""

from __future__ import annotations

from airflow_streaming.core.blackout import Blackout
from airflow_streaming.core.checkpoint.backup import Origin
from airflow_streaming.core.checkpoint.retention import RetentionPolicy
from airflow_streaming.core.cutover.terms import CompareTerms, ReadyTerms
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.policy import Budget, RestartPolicy
from airflow_streaming.core.profile.profile import Profile, StateStore, production
from airflow_streaming.core.rules.rule import Comparison, HealthRule, Metric, Severity
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.upgrade.terms import SoakTerms

__all__ = [
    "Blackout",
    "Budget",
    "CompareTerms",
    "Comparison",
    "HealthRule",
    "HealthRules",
    "Metric",
    "Origin",
    "Profile",
    "ReadyTerms",
    "RestartPolicy",
    "RetentionPolicy",
    "Severity",
    "SoakTerms",
    "StateStore",
    "StreamSpec",
    "production",
]
