"""Wiring of csbot: settings, URLs, Celery, the toolkit (`csbot.lib`) and the portal."""
