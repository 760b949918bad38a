#!/bin/sh
# Airflow in its own environment (.venv-airflow; it must not share Skyband's). Run it from the root of the checkout:
#   scripts/airflow.sh setup   makes the environment with pinned packages; fast when nothing has changed
#   scripts/airflow.sh ui      runs all of Airflow, for this machine only, until Ctrl-C
set -eu

say() { printf 'skyband: %s\n' "$*"; }

setup() {
    . scripts/python.sh
    stamp=.venv-airflow/skyband-setup
    now=$("$python" - airflow_dags/requirements.txt <<'EOF'
import hashlib, os, sys
print(hashlib.sha256(repr((sys.version, os.getcwd(), open(sys.argv[1]).read())).encode()).hexdigest())
EOF
    )
    if [ "$(cat "$stamp" 2>/dev/null || true)" = "$now" ]; then
        return
    fi
    say "setting up .venv-airflow with $("$python" --version) (once, a minute or two)"
    "$python" -m venv --clear .venv-airflow
    .venv-airflow/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r airflow_dags/requirements.txt
    printf '%s\n' "$now" >"$stamp"
}

ui() {
    port=${SKYBAND_AIRFLOW_PORT:-8080}
    export AIRFLOW_HOME="${AIRFLOW_HOME:-$PWD/build/airflow}"
    export AIRFLOW__CORE__DAGS_FOLDER="$PWD/airflow_dags" AIRFLOW__CORE__LOAD_EXAMPLES=False
    # Only this machine can reach it, and there is no login.
    export AIRFLOW__API__HOST=127.0.0.1 AIRFLOW__API__PORT="$port" AIRFLOW__API__BASE_URL="http://127.0.0.1:$port"
    export AIRFLOW__CORE__EXECUTION_API_SERVER_URL="http://127.0.0.1:$port/execution/"
    export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS=True
    # A new spec becomes a DAG within seconds.
    export AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL=5
    # Each run starts a Spark driver, so limit how many run at once.
    export AIRFLOW__CORE__PARALLELISM="${AIRFLOW__CORE__PARALLELISM:-2}"
    # Directories of the demo's specs.
    export LANDING="${LANDING:-$PWD/build/demo/landing}" WAREHOUSE="${WAREHOUSE:-$PWD/build/demo/tables}"
    PATH="$PWD/.venv-airflow/bin:$PATH"
    say "Airflow will be at http://127.0.0.1:$port; specs are in ${SKYBAND_SPECS:-specs}; its own files in $AIRFLOW_HOME"
    exec .venv-airflow/bin/airflow standalone
}

"$@"
