"""Every setting of csbot. Values come from the environment; a wrong one stops the start with its name.

Servers come from DATABASE_URL and REDIS_URL, or from `$CSBOT_HOME/servers.json` of a running embedded start.
"""

import base64
import binascii
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csbot.lib import environment as env

BASE_DIR = Path(__file__).resolve().parent.parent

# --- Where things are -------------------------------------------------------------------------------------
CSBOT_HOME = Path(os.environ.get("CSBOT_HOME") or BASE_DIR / "var").absolute()
CSBOT_BIND = os.environ.get("CSBOT_BIND") or "127.0.0.1"
CSBOT_PORT = env.read("CSBOT_PORT", 8000, env.whole(1, 65_535), "a port from 1 to 65535")
CSBOT_PUBLIC_URL = env.read(
    "CSBOT_PUBLIC_URL",
    f"http://localhost:{CSBOT_PORT}",
    env.http_url,
    "an http or https address without query, fragment or account",
)
_servers = env.home_file(CSBOT_HOME, "servers.json")
# Beside a database of somebody else's, keys made for an embedded one would be the wrong ones.
_keys = {} if os.environ.get("DATABASE_URL") else env.home_file(CSBOT_HOME, "keys.json")
_database_url = os.environ.get("DATABASE_URL") or _servers.get("databaseUrl", "")
if not _database_url:
    raise SystemExit(
        f"DATABASE_URL is not set and no embedded servers are known under {CSBOT_HOME}; run `make up`."
    )
REDIS_URL = env.read(
    "REDIS_URL",
    _servers.get("redisUrl", ""),
    env.redis_url,
    "a redis:// or rediss:// address",
    is_secret=True,
)
if not REDIS_URL:
    raise SystemExit(
        f"REDIS_URL is not set and no embedded servers are known under {CSBOT_HOME}; run `make up`."
    )

# --- Secrets ----------------------------------------------------------------------------------------------
SECRET_KEY = os.environ.get("CSBOT_SECRET_KEY") or _keys.get("secretKey", "")
if len(SECRET_KEY) < 32:
    raise SystemExit("CSBOT_SECRET_KEY is not set or too short; expected at least 32 random characters.")


def _encryption_keys(raw: str) -> list[bytes]:
    try:
        keys = [base64.b64decode(part.strip(), validate=True) for part in raw.split(",")]
    except binascii.Error as error:
        raise ValueError(raw) from error
    if any(len(key) != 32 for key in keys):
        raise ValueError(raw)
    return keys


try:
    CSBOT_ENCRYPTION_KEYS = _encryption_keys(
        os.environ.get("CSBOT_ENCRYPTION_KEYS") or _keys.get("encryptionKeys", "")
    )
except ValueError:
    # The value itself is a secret, so the line does not repeat it.
    raise SystemExit(
        "CSBOT_ENCRYPTION_KEYS is not accepted; expected one or more base64 keys of 32 bytes, divided by commas."
    ) from None

# --- The engine -------------------------------------------------------------------------------------------
CSBOT_SLOTS = env.read("CSBOT_SLOTS", 4, env.whole(1, 256), "a whole number from 1 to 256")
CSBOT_BACKOFF = env.read(
    "CSBOT_BACKOFF", [0, 30, 120, 600, 3600], env.seconds_list, "seconds divided by commas, such as 0,30,120"
)
CSBOT_HEARTBEAT = env.read("CSBOT_HEARTBEAT", 20, env.whole(1, 3600), "whole seconds from 1 to 3600")
CSBOT_STUCK_AFTER = env.read("CSBOT_STUCK_AFTER", 120, env.whole(3, 86_400), "whole seconds from 3 to 86400")
# The lease is this less two heartbeats, and a worker stops when a touch is overdue by most of it.
if CSBOT_STUCK_AFTER < 4 * CSBOT_HEARTBEAT:
    env.stop("CSBOT_STUCK_AFTER", str(CSBOT_STUCK_AFTER), f"at least four heartbeats ({4 * CSBOT_HEARTBEAT})")
CSBOT_SCHEDULER_TICK = env.read("CSBOT_SCHEDULER_TICK", 5, env.whole(1, 3600), "whole seconds from 1 to 3600")
CSBOT_OUTBOUND_ALLOW: list[tuple[str | None, str, int]] = env.read(
    "CSBOT_OUTBOUND_ALLOW",
    [],
    env.allow_list,
    "host:port or slug=host:port, divided by commas (host: a name or an address, IPv6 in brackets)",
)
CSBOT_WEBHOOK_RATE = env.read(
    "CSBOT_WEBHOOK_RATE", (50, 200), env.rate, "perSecond/burst, such as 50/200; a burst of 0 only beside 0"
)
# There is no second factor yet, and nobody may believe that there is one.
if env.read("CSBOT_STAFF_2FA", False, env.switch, "off"):
    env.stop("CSBOT_STAFF_2FA", os.environ["CSBOT_STAFF_2FA"], "off; this version has no second factor yet")
CSBOT_MAX_BODY = env.read("CSBOT_MAX_BODY", 1_048_576, env.whole(1, 104_857_600), "bytes from 1 to 104857600")

# --- Mail -------------------------------------------------------------------------------------------------
# Without a server mails become files, so there somebody is always written to.
_smtp: dict[str, Any] = env.read(
    "CSBOT_SMTP_URL",
    {},
    env.smtp_url,
    "smtp://user:password@host:587, or smtps:// or smtp+plain://",
    is_secret=True,
)
CSBOT_STAFF_EMAIL = env.read(
    "CSBOT_STAFF_EMAIL",
    [] if _smtp else ["staff@localhost"],
    env.addresses,
    "e-mail addresses divided by commas",
)
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = CSBOT_HOME / "mail"
# Mails are sent by the tick, which has other things to do than to wait for a hung server.
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = f"csbot@{urlsplit(CSBOT_PUBLIC_URL).hostname}"
globals().update(_smtp)

# --- Django -----------------------------------------------------------------------------------------------
DEBUG = False
# Hosts are the proxy's business; absolute addresses are built from CSBOT_PUBLIC_URL, never from the Host header.
ALLOWED_HOSTS = ["*"]
CSRF_TRUSTED_ORIGINS = [CSBOT_PUBLIC_URL]
ROOT_URLCONF = "csbot.urls"
WSGI_APPLICATION = "csbot.wsgi.application"
AUTH_USER_MODEL = "tickets.Login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_celery_beat",
    "csbot",
    "tickets",
    "connectors",
    "automations",
    "incidents",
    "runtime",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
# A database that hangs is met by timeouts: of connecting, of a statement, of a lock, of an idle transaction, and
# by TCP keepalives for a half-open socket. A migration may take its time.
try:
    _database = env.database_url(_database_url)
except ValueError:
    # The value holds a password, so the line does not repeat it.
    raise SystemExit(
        "DATABASE_URL is not accepted; expected postgresql://user:password@host:port/name."
    ) from None
_timeouts = (
    "" if "migrate" in sys.argv else "-c statement_timeout=15s -c lock_timeout=5s -c transaction_timeout=60s "
)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **_database,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 2,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            "options": f"{_timeouts}-c idle_in_transaction_session_timeout=15s",
            **dict(_database["OPTIONS"]),
        },
    }
}
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
CSRF_FAILURE_VIEW = "csbot.lib.problems.csrf_failure"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = CSBOT_PUBLIC_URL.startswith("https://")
LANGUAGE_CODE = "en"
LANGUAGES = [("cs", "Čeština"), ("en", "English")]
LOCALE_PATHS = [BASE_DIR / "csbot" / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
# Without a collect step: WhiteNoise serves what the packages bring, found once at start.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
DATA_UPLOAD_MAX_MEMORY_SIZE = CSBOT_MAX_BODY
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tickets.tenancy.TokenAuthentication",
        "tickets.tenancy.PortalSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["tickets.tenancy.TenantPermission"],
    "DEFAULT_RENDERER_CLASSES": ["csbot.lib.api.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["csbot.lib.api.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "csbot.lib.api.Cursor",
    "EXCEPTION_HANDLER": "csbot.lib.api.problem_of",
    "UNAUTHENTICATED_USER": None,
}
DJANGO_CELERY_BEAT_TZ_AWARE = True
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    # One line for every wake-up and every tick says nothing.
    "loggers": {
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
    },
}
