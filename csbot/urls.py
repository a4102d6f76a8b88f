"""Every URL of the system on one page."""

from django.contrib import admin
from django.urls import include, path
from rest_framework.routers import SimpleRouter

import automations.api
import connectors.api
import incidents.api
import runtime.api
import runtime.reconcile_api
import tickets.api
import tickets.ticket_api
from csbot import health
from runtime.intake import webhooks


class Router(SimpleRouter):
    """Routes of the REST surface; a trailing slash is optional."""

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"


router = Router()
for prefix, viewset, basename in (
    *tickets.api.ROUTES,
    *tickets.ticket_api.ROUTES,
    *connectors.api.ROUTES,
    *automations.api.ROUTES,
    *incidents.api.ROUTES,
    *runtime.api.ROUTES,
    *runtime.reconcile_api.ROUTES,
):
    router.register(prefix, viewset, basename=basename)

urlpatterns = [
    path("webhook/<str:token>", webhooks.receive),
    path("api/", include(router.urls)),
    path("admin/", admin.site.urls),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
]

handler400 = "csbot.lib.problems.bad_request"
handler403 = "csbot.lib.problems.permission_denied"
handler404 = "csbot.lib.problems.not_found"
handler500 = "csbot.lib.problems.server_error"
