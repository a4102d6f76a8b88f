"""Registration of the app."""

from django.apps import AppConfig


class TicketsConfig(AppConfig):
    name = "tickets"
