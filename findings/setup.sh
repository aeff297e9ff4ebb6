# Sourced by each script: makes the temporary folder $folder, removed at the end, and $python with the script's packages.
# `findings/run` sets FINDINGS_PYTHON to share an installation among scripts that need the same packages.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -n "${FINDINGS_PYTHON:-}" ]; then
    python=$FINDINGS_PYTHON
else
    packages=$(sed -n 's/^# Packages: *//p' "$0")
    python3 -m venv "$folder/venv"
    python="$folder/venv/bin/python"
    # shellcheck disable=SC2086
    "$python" -m pip install --quiet --disable-pip-version-check $packages
fi
cd "$folder"
