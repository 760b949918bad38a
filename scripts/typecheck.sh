#!/bin/sh
# mypy on the package as it is imported. The folders operators/, framework/ and jobs/ are sub-packages of skyband by setuptools' package-dir,
# which a type checker cannot see, so it is shown a tree of links in which they are where their names say.
set -eu
tree=build/typecheck
rm -rf "$tree/skyband"
mkdir -p "$tree/skyband"
for file in skyband/*; do
    case $file in */__pycache__) ;; *) ln -s "../../../$file" "$tree/$file" ;; esac
done
for folder in operators framework jobs; do
    ln -s "../../../$folder" "$tree/skyband/$folder"
done
cd "$tree"
exec ../../.venv/bin/mypy --config-file ../../pyproject.toml -p skyband
