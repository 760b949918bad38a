# Source this: it sets `python` to a Python 3.11 or later, PYTHON first. A name on PATH may be a shim that does not start, so each is tried.
python=
for name in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        python=$name
        break
    fi
done
if [ -z "$python" ]; then
    echo "skyband: Python 3.11 or later is needed and was not found; install it, or name it: make demo PYTHON=/path/to/python3.11" >&2
    exit 1
fi
