"""Registration of the app."""

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    name = "runtime"
