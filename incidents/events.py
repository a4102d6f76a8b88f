"""The one signal of incidents, for whoever waits for a person's decision."""

from django.dispatch import Signal

incident_resolved = Signal()
"""Sent by `incidents.services` inside its transaction. Argument: `incident_id`, the internal id."""
