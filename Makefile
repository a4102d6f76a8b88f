# csbot: make up starts everything, make test checks everything. Needs Python 3.11 or newer as python3, no server.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
# What is installed; newer than the lock file means that there is nothing to do.
RUNTIME := $(VENV)/.installed
DEVELOPMENT := $(VENV)/.installed-dev
# Readable by the account that PostgreSQL runs as when root starts it. Compiled, so that starting is quick.
SYNC := umask 022 && UV_PROJECT_ENVIRONMENT=$(VENV) $(VENV)/bin/uv sync --frozen --inexact --compile-bytecode --quiet

.PHONY: up test lint pytest soak clean
.SILENT:

up: $(RUNTIME)
	exec $(PY) -m csbot.quickstart

test: lint pytest

lint: $(DEVELOPMENT)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

pytest: $(DEVELOPMENT)
	# Two processes, each on servers of its own; more of them than cores only wait for each other.
	$(PY) -m pytest -n 2

soak: $(DEVELOPMENT)
	$(PY) -m pytest -m soak --timeout=3600

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/uv:
	python3 -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "csbot needs Python 3.11 or newer as python3; this one is " + sys.version.split()[0])'
	echo "csbot: installing into $(VENV)"
	umask 022 && python3 -m venv $(VENV)
	# Puts the project's folder on the path of every program in the environment (pytest, celery).
	echo ../../../.. > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/csbot.pth"
	umask 022 && $(PY) -m pip install --quiet --disable-pip-version-check uv

$(RUNTIME): pyproject.toml uv.lock | $(VENV)/bin/uv
	$(SYNC) --no-dev
	touch $@

$(DEVELOPMENT): pyproject.toml uv.lock | $(VENV)/bin/uv
	$(SYNC)
	touch $(RUNTIME) $@
