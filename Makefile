# Bootstrap only: create .venv from the lock file, then call Snakemake or pytest.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready

.PHONY: report test environment lock
report: $(READY)
	$(VENV)/bin/snakemake --cores all reports/summary.html
	@echo "Open $(CURDIR)/reports/summary.html"

# Only the environment, for the login node of a cluster.
environment: $(READY)

test: $(READY)
	tests/browser/install-chromium
	tests/browser/install-axe
	tests/cluster/install-slurm
	$(VENV)/bin/python -m pytest --numprocesses auto --dist loadfile

# Update requirements.lock from pyproject.toml (needs uv).
lock:
	uv pip compile pyproject.toml --extra slurm --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --upgrade --output-file requirements.lock

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "privmix needs Python 3.11 or newer. Choose one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
