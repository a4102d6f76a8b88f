"""What a key, a time zone and a number of the desk's settings may be; API and admin ask the same questions."""

from __future__ import annotations

from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator

KEY_PATTERN = r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z"
KEY_MESSAGE = "Expected letters, digits, dots, hyphens and underscores, beginning with a letter or digit."
validate_key = RegexValidator(KEY_PATTERN, KEY_MESSAGE)
# More slots than any installation has.
MOST_PARALLEL_RUNS = 100_000
# Ten years.
MOST_RETENTION_DAYS = 3650
# Open tickets of one person.
MOST_CAPACITY = 10_000


def validate_timezone(name: str) -> None:
    """Raise ValidationError for what is no zone of the tz database: nothing of the tenant works with it."""
    if name not in available_timezones():
        raise ValidationError("Expected a time zone such as Europe/Prague.", code="invalid")


def from_one_to(most: int) -> list[MinValueValidator | MaxValueValidator]:
    """Return the validators of a whole number from 1 to `most`."""
    return [MinValueValidator(1), MaxValueValidator(most)]
