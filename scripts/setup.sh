#!/bin/sh
# Set up .venv with pinned packages, and check that Spark finds a Java. Fast when nothing has changed.
#
#   sh scripts/setup.sh demo   what the demo needs (requirements-demo.txt), its data and its kernels
#   sh scripts/setup.sh warm   prepare fast starts of Spark (skyband warm)
#   sh scripts/setup.sh later  do that in the background, when nothing else needs the processor; its output is .venv/skyband-warm.log
#   sh scripts/setup.sh all    what the tests need as well (requirements.txt), and warm
#
# The Makefile calls it from the root of the checkout. Paths are relative, so the checkout's path may have a space.
set -eu

wanted=${1:-all}
say() { printf 'skyband: %s\n' "$*"; }
fail() { printf 'skyband: %s\n' "$*" >&2; exit 1; }
# Commands in the background ignore Ctrl-C, which ends all others of this group.
trap 'trap - INT TERM; kill -s TERM 0' INT

# Print $1 and run the rest. Until it ends, print $1 and the elapsed seconds every 10 seconds; then the seconds that it took.
during() {
    what=$1
    shift
    say "$what"
    began=$(date +%s)
    "$@" &
    await "$what" $! "$began"
}

# Wait for the process $2, which does $1 since $3 (in seconds). Return its exit code.
await() {
    {
        while sleep 10 >/dev/null 2>&1; do
            say "$1: $(($(date +%s) - $3)) s"
        done
    } &
    beat=$!
    done=0
    wait "$2" || done=$?
    kill "$beat" 2>/dev/null || true
    wait "$beat" 2>/dev/null || true
    [ "$done" != 0 ] || say "$1: done in $(($(date +%s) - $3)) s"
    return "$done"
}

# Install packages with apt-get; fail if this is not root or there is no apt-get.
apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "installing $* (apt-get)"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null
}

# Making it again would empty the directory that the link names.
[ ! -L .venv ] || fail ".venv is a symbolic link; remove it, so that this checkout gets an environment of its own"

# --- Python 3.11 or later.
. scripts/python.sh

# --- Java 17 or 21.
if ! "$python" -I framework/base/java.py >/dev/null; then
    { apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless; } 2>/dev/null || true
    "$python" -I framework/base/java.py >/dev/null || fail "Java 17 or 21 is needed and was not found; install it (for example: sudo apt-get install openjdk-17-jre-headless), or set JAVA_HOME to it"
fi

# --- The stamps of what is there: .venv/skyband-python identifies Python and the path (if they change, the environment is made again);
# skyband-demo, skyband-all and skyband-warm also the packages.
set -- $("$python" - pyproject.toml requirements-demo.txt requirements.txt <<'EOF'
import hashlib, os, sys
identity = hashlib.sha256(repr((sys.version, os.getcwd())).encode()).hexdigest()
project, *pinned = (open(name, "rb").read() for name in sys.argv[1:])
print(identity, *(hashlib.sha256(identity.encode() + project + pins).hexdigest() for pins in pinned))
EOF
)
python_stamp=$1 demo_stamp=$2 all_stamp=$3
current() { [ "$(cat ".venv/skyband-$1" 2>/dev/null)" = "$2" ] && [ -x .venv/bin/skyband ]; }

# --- The environment, with nothing but setuptools. Sets `uv` to uv, which goes at the end, or to nothing where only pip will do.
environment() {
    if [ "$(cat .venv/skyband-python 2>/dev/null)" != "$python_stamp" ]; then
        say "setting up .venv with $("$python" --version) (once)"
        if ! "$python" -m venv --clear .venv >/dev/null 2>&1; then
            apt_install "$(basename "$python")-venv" 2>/dev/null || apt_install python3-venv 2>/dev/null || true
            "$python" -m venv --clear .venv >/dev/null || fail "this Python cannot make virtual environments; install its venv module (for example: sudo apt-get install python3-venv)"
        fi
        printf '%s\n' "$python_stamp" >.venv/skyband-python
    else
        say "bringing .venv up to date"
    fi
    uv=
    rm -rf .venv/skyband-uv
    pins requirements.txt uv >.venv/skyband-pins
    # uv does not read the settings of pip, as of another index or a proxy.
    if pip config list | grep -Eq 'index|proxy|client-cert' || ! install --require-hashes --target .venv/skyband-uv -r .venv/skyband-pins; then
        say "installing with pip instead of uv"
    else
        uv=.venv/skyband-uv/bin/uv
    fi
    pins requirements.txt setuptools >.venv/skyband-pins
    install --require-hashes -r .venv/skyband-pins
}

pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }

# Print the requirements of file $1 that are named $2 (a pattern), or with $3 all others.
pins() { awk -v name="^($2)==" -v others="${3:+1}" '/^[A-Za-z0-9]/ { on = ($0 ~ name) != (others == 1) } on' "$1"; }

# Install packages with uv or, if there is none or it fails, with pip. Wheels that are built here, and unpacked at once, are not compressed.
install() {
    set -- --quiet --no-deps --no-build-isolation --config-settings=--build-option=--compression=stored "$@"
    if [ -n "$uv" ]; then
        "$uv" pip install --python .venv/bin/python "$@" && return
        say "uv failed: installing with pip"
    fi
    pip install "$@"
}

# Install the packages of file $1 and Skyband, then run the rest while the largest package, PySpark, is downloaded and installed.
packages() {
    pinned=$1
    shift
    environment
    spark=
    pins "$pinned" pyspark >.venv/skyband-spark
    pins "$pinned" pyspark others >.venv/skyband-pins
    if [ -n "$uv" ] && ! "$uv" pip show --quiet --python .venv/bin/python pyspark 2>/dev/null; then
        say "downloading PySpark"
        spark_began=$(date +%s)
        # An environment takes one installation at a time. This one leaves PySpark in the cache of uv.
        install --require-hashes --target .venv/skyband-target -r .venv/skyband-spark &
        spark=$!
    fi
    during "installing $(grep -c '^[A-Za-z0-9]' .venv/skyband-pins) packages ($pinned)" install --require-hashes -r .venv/skyband-pins
    during "installing skyband" install -e .
    "$@" &
    meanwhile=$!
    [ -z "$spark" ] || await "downloading PySpark" "$spark" "$spark_began"
    during "installing PySpark" install --require-hashes -r .venv/skyband-spark
    [ "$wanted" != demo ] || during "fetching Spark's packages" .venv/bin/skyband warm --packages --quiet || true
    wait "$meanwhile"
    rm -rf .venv/skyband-target .venv/skyband-spark .venv/skyband-pins .venv/skyband-uv
    printf '%s\n' "$demo_stamp" >.venv/skyband-demo
}

# Do what the demo would do without Spark. If this or the fetching of Spark's packages fails, the demo does it, and reports what is wrong.
prepare() {
    say "preparing the demo"
    began=$(date +%s)
    .venv/bin/skyband demo --prepare || return 0
    say "preparing the demo: done in $(($(date +%s) - began)) s"
}

# Prepare fast starts. If this fails (no network, no space), starts are slower.
warm() {
    current warm "$demo_stamp" && return
    say "preparing fast starts of Spark (skyband warm)"
    .venv/bin/skyband warm || say "preparation failed: runs will start more slowly (skyband warm tries again)"
    printf '%s\n' "$demo_stamp" >.venv/skyband-warm
}

case $wanted in
demo) current demo "$demo_stamp" || packages requirements-demo.txt prepare ;;
warm) warm ;;
later) current warm "$demo_stamp" || nohup nice -n 19 sh scripts/setup.sh warm >.venv/skyband-warm.log 2>&1 </dev/null & ;;
all)
    if ! current all "$all_stamp"; then
        packages requirements.txt :
        printf '%s\n' "$all_stamp" >.venv/skyband-all
    fi
    warm
    ;;
*) fail "unknown set of packages: $wanted" ;;
esac
