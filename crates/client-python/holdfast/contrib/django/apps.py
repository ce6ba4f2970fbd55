"""The application, which exists for its command."""

from django.apps import AppConfig


class HoldfastConfig(AppConfig):  # type: ignore[misc]
    name = "holdfast.contrib.django"
    label = "holdfast"
