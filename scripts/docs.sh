#!/bin/sh
# Builds the docs as a site in build/site, by MkDocs in its own environment (.venv-site). Run it from the root of the checkout.
set -eu

. scripts/python.sh
stamp=.venv-site/skyband-setup
now=$("$python" - docs/requirements.txt <<'EOF'
import hashlib, os, sys
print(hashlib.sha256(repr((sys.version, os.getcwd(), open(sys.argv[1]).read())).encode()).hexdigest())
EOF
)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$now" ]; then
    printf 'skyband: setting up .venv-site with %s (once)\n' "$("$python" --version)"
    "$python" -m venv --clear .venv-site
    .venv-site/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r docs/requirements.txt
    printf '%s\n' "$now" >"$stamp"
fi
# A broken link, or a page that is in no menu, is an error.
NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --quiet --strict
printf 'skyband: the documentation is in build/site/index.html\n'
