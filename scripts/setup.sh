#!/bin/sh
# Sets up .venv with pinned packages, and checks that Spark finds a Java. Fast when nothing has changed.
# Every target of the Makefile calls it from the root of the checkout. Paths are relative, so the checkout's path may have a space.
set -eu

say() { printf 'skyband: %s\n' "$*"; }
fail() { printf 'skyband: %s\n' "$*" >&2; exit 1; }

# Print $1 and run the rest. Until it ends, print $1 and the elapsed seconds every 10 seconds.
during() {
    what=$1
    shift
    say "$what"
    "$@" &
    work=$!
    {
        seconds=0
        while sleep 10 >/dev/null 2>&1; do
            seconds=$((seconds + 10))
            say "$what: $seconds s"
        done
    } &
    beat=$!
    done=0
    wait "$work" || done=$?
    kill "$beat" 2>/dev/null || true
    wait "$beat" 2>/dev/null || true
    return "$done"
}

# Install packages with apt-get; fail if this is not root or there is no apt-get.
apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "installing $* (apt-get)"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null
}

# --- Python 3.11 or later.
. scripts/python.sh

# --- Java 17 or 21.
if ! "$python" -I framework/base/java.py >/dev/null; then
    { apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless; } 2>/dev/null || true
    "$python" -I framework/base/java.py >/dev/null || fail "Java 17 or 21 is needed and was not found; install it (for example: sudo apt-get install openjdk-17-jre-headless), or set JAVA_HOME to it"
fi

# --- The environment. The stamp's first line identifies Python and path (if it changes, the environment is made again), its second the packages.
stamp=.venv/skyband-setup
now=$("$python" - requirements.txt pyproject.toml <<'EOF'
import hashlib, os, sys
print(hashlib.sha256(repr((sys.version, os.getcwd())).encode()).hexdigest())
print(hashlib.sha256(b"".join(open(name, "rb").read() for name in sys.argv[1:])).hexdigest())
EOF
)
have=$(cat "$stamp" 2>/dev/null || true)
if [ "$have" = "$now" ] && [ -x .venv/bin/skyband ]; then
    exit 0
fi

identity=${now%%
*}
if [ "${have%%
*}" != "$identity" ]; then
    say "setting up .venv with $("$python" --version) (once, some minutes)"
    if ! "$python" -m venv --clear .venv >/dev/null 2>&1; then
        apt_install "$(basename "$python")-venv" 2>/dev/null || apt_install python3-venv 2>/dev/null || true
        "$python" -m venv --clear .venv >/dev/null || fail "this Python cannot make virtual environments; install its venv module (for example: sudo apt-get install python3-venv)"
    fi
else
    say "bringing .venv up to date"
fi
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }
many=$(grep -c '^[A-Za-z0-9]' requirements.txt)
during "installing $many packages (requirements.txt)" pip install --quiet --require-hashes -r requirements.txt
during "installing skyband" pip install --quiet --no-deps --no-build-isolation -e .
printf '%s\n' "$now" >"$stamp"
# Prepares the first run. If this fails (no network, no space), the first run does it, and starts are slower.
say "preparing the first run"
.venv/bin/skyband warm || say "preparation failed: runs will start more slowly (skyband warm tries again)"
