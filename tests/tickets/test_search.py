"""Folding of what is searched and what is asked."""

import pytest

from tickets import search


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Žluťoučký kůň", "zlutoucky kun"),
        ("  STRASSE\n Straße ", "strasse strasse"),
        ("ﬁlé №5", "file no5"),
        ("", ""),
    ],
)
def test_folding(text, folded):
    assert search.fold(text) == folded
