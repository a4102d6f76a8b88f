"""Staff's pages of automations: they show, they do not write, they hold no secret."""

import pytest

from automations import services, tokens
from tests.automations import trees
from tests.factories import LoginFactory
from tickets.events import Actor

JANA = Actor("person", "Jana")


@pytest.fixture
def live(shop):
    raw = trees.orders(trigger=trees.signed("canary"))
    return services.publish(services.create(shop, JANA, raw).automation, JANA)


@pytest.fixture
def staff(db, client):
    client.force_login(LoginFactory(staff=True))
    return client


@pytest.mark.parametrize("model", ["automation", "automationversion"])
def test_pages_show_the_tree_without_secrets(staff, live, model):
    row = live if model == "automation" else live.published
    pages = [f"/admin/automations/{model}/", f"/admin/automations/{model}/?q=Orders"]
    pages.append(f"/admin/automations/{model}/{row.pk}/change/")
    for page in pages:
        answer = staff.get(page)
        assert answer.status_code == 200
        content = answer.content.decode()
        assert "Orders" in content
        assert "canary" not in content
        assert tokens.current(live) not in content
        assert live.secrets not in content
    assert "ticket/upsert" in content


@pytest.mark.parametrize("model", ["automation", "automationversion"])
def test_nothing_is_written_by_hand(staff, live, model):
    row = live if model == "automation" else live.published
    for page in ("add/", f"{row.pk}/delete/"):
        assert staff.get(f"/admin/automations/{model}/{page}").status_code == 403
    assert staff.post(f"/admin/automations/{model}/{row.pk}/change/", {"name": "x"}).status_code == 403


@pytest.mark.parametrize("model", ["webhooktoken", "trigger"])
def test_tokens_have_no_page(staff, live, model):
    assert staff.get(f"/admin/automations/{model}/").status_code == 404
