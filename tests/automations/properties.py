"""How properties are tested here: a slow machine is no counterexample."""

from hypothesis import HealthCheck, settings

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
