# Two commands for a fresh machine with Python 3.11+, Java, make and git: `make demo` and `make test`.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo quick test test-all kernels fuzz kills lint format bench requirements airflow airflow-ui airflow-test editor-test docs wheel image clean

PYTHON ?=
SKYBAND_SHARED ?= ../shared
export PYTHON SKYBAND_SHARED
BIN := .venv/bin

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

setup: ## make .venv with pinned packages, and check that there is a Java
	@sh scripts/setup.sh all

demo: ## set up what the demo needs and run its job: a year of real flights
	@sh scripts/setup.sh demo
	@$(BIN)/skyband demo
	@sh scripts/setup.sh later

# Python keeps compiled modules and tests, also where the environment says otherwise: compiling their assertions takes longer than running many.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

quick: setup ## run the files of tests/quick.txt, without Spark and with few random cases (two processes)
	@SKYBAND_SEEDS=0.05 HYPOTHESIS_PROFILE=quick $(PYTEST) -n 2 --dist loadfile -m "not (slow or chaos or long or spark or real or airflow)" @tests/quick.txt

# mypy takes one processor: kernels are compiled on the other one meanwhile.
test: setup ## set everything up, check style and types, run the tests with some of the random cases (two processes)
	@$(MAKE) --no-print-directory -j 2 lint kernels
	@SKYBAND_SEEDS=0.4 $(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder --durations=20 -m "not slow and not chaos and not airflow"

test-all: setup ## all random cases, and also the slow tests, those that kill processes, and those on more real data
	@$(MAKE) --no-print-directory -j 2 lint kernels
	@$(PYTEST) --durations=20

# Two processes of tests would compile the same kernels and wait for each other: compile those of the gallery first, in parallel.
kernels: setup ## compile the kernels of the gallery, which most tests need, into the cache
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m skyband.framework.environment.bundle --warm

fuzz: setup ## damage 20,000 specs, 2,000 sources and 300 sinks, send 3,000 statements to serve; more: make fuzz cases=100000 sources=9000 sinks=3000 statements=50000
	@$(BIN)/python -m tests.framework.spec.fuzz $(or $(cases),20000)
	@$(BIN)/python -m tests.framework.sources.fuzz $(or $(sources),2000)
	@$(BIN)/python -m tests.framework.streaming.job.fuzz $(or $(sinks),300)
	@$(BIN)/python -m tests.framework.spec.worst_cases
	@$(BIN)/python -m tests.framework.serve.fuzz $(or $(statements),3000)

kills: setup ## kill jobs of every kind 200 times at random moments; fewer: make kills count=20 [seed=7] [out=figures.json]
	@$(BIN)/python -m tests.spark.kills --count $(or $(count),200) --seed $(or $(seed),7) $(if $(out),--out $(out))

lint: setup ## check style, types and spelling
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/codespell

format: setup ## format the source
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

bench: setup ## run the benchmarks; one of them: make bench only=topk_pairs
	@$(BIN)/python -m bench $(only)

PIN := pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --strip-extras --allow-unsafe

requirements: setup ## pin all requirements again, also those of the image, the docs and Airflow (needs pip-tools on PATH)
	@$(PIN) requirements.in
	@$(PIN) -c requirements.txt requirements-image.in
	@$(PIN) -c requirements.txt requirements-demo.in
	@cd docs && $(PIN) requirements.in
	@cd airflow_dags && $(PIN) requirements.in

docs: ## build the docs as a site, in build/site
	@sh scripts/docs.sh

# A checkout keeps no kernels of a baseline: its own processor's are faster, and its code changes.
wheel: setup ## build the package with compiled kernels, in build/dist: some minutes
	@trap '$(BIN)/python -m skyband.framework.environment.bundle --remove' EXIT; trap 'exit 1' INT TERM; \
	rm -rf build/lib build/bdist.* && $(BIN)/python -m skyband.framework.environment.bundle && $(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir build/dist .

image: ## build an image with the command, by Docker
	@docker build --tag skyband .

airflow: setup ## make .venv-airflow with Airflow 3.3
	@sh scripts/airflow.sh setup

airflow-ui: airflow ## run Airflow at http://127.0.0.1:8080 with a DAG per spec, until Ctrl-C
	@sh scripts/airflow.sh ui

airflow-test: airflow ## run the tests that need Airflow
	@$(BIN)/python -m pytest --durations=20 -m airflow tests/airflow

editor-test: setup ## test what editors show for specs, by yaml-language-server (needs Node.js and npm)
	@npm install --no-audit --no-fund --no-save --prefix build/editor yaml-language-server@1.25.0
	@$(BIN)/python -m pytest --durations=20 tests/framework/spec/schema/test_editor.py

clean: ## remove build results and environments
	@rm -rf build .venv .venv-airflow .venv-site
