"""The desk in tests: who acts, and what a ticket's log says."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from django.db import connection

from tickets.events import Actor
from tickets.fields import equal
from tickets.models import Person
from tickets.representation import BEFORE_CREATION

JANA = Actor("person", "Jana")
ROBOT = Actor("automation", "Orders v3")


def person(tenant, name):
    return Person.objects.of(tenant).get(name=name)


def kinds(ticket):
    return list(ticket.events.order_by("id").values_list("kind", flat=True))


def last_entry(ticket):
    return ticket.events.order_by("-id").first()


def replayed(ticket):
    """The state that the ticket's log alone tells."""
    told = dict(BEFORE_CREATION)
    for event in ticket.events.order_by("id"):
        for key, change in event.data.get("changes", {}).items():
            assert equal(told.get(key), change["from"]), (key, told.get(key), change)
            told[key] = change["to"]
    return {key: value for key, value in told.items() if key in BEFORE_CREATION or value is not None}


def at_once(*calls):
    """Run all `calls` at once, each on a connection of its own; return what each gave or raised."""
    together = Barrier(len(calls))

    def run(call):
        try:
            connection.ensure_connection()
            together.wait(timeout=30)
            return call()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
