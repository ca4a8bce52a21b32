#!/usr/bin/env bash
# What a GPU does for this package, on a machine that may have no network.
#
#   benchmarks/gpu.sh wheels     here, with a network: put what that machine lacks into .whl (see gpu.txt)
#   benchmarks/gpu.sh [FOLDER]   there, at most eight minutes: install that, measure, print a table and write JSON
#
# That machine needs Python 3.12 with torch, transformers, numpy, pandas, pyarrow, scipy, scikit-learn, numba,
# matplotlib, lxml and pip: PYTHON names it (default python3). Results are written to FOLDER, else to $OUT if that is
# set. Without a GPU everything runs on the CPU, with fewer texts; PATIENCE=5 gives a slow machine five times as long. The
# exit status is 1 if any stage failed.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if [ "${1:-}" = wheels ]; then
    exec "$python" benchmarks/gpu.py wheels
fi
out=${1:-${OUT:-}}
out=${out:+$(realpath -m "$out")}
work=$(mktemp -d "${TMPDIR:-/tmp}/mog-gpu-XXXXXX")
trap 'rm -rf "$work"' EXIT
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 DAGSTER_DISABLE_TELEMETRY=yes TOKENIZERS_PARALLELISM=true
unset DAGSTER_HOME MOG_CONFIG PYTHONPATH
patience=${PATIENCE:-1}
timeout -k 5 $((85 * patience)) "$python" benchmarks/gpu.py install "$work" || exit 1
export PYTHONPATH="$work/site"
timeout -k 5 $((395 * patience)) "$python" benchmarks/gpu.py run "$work" ${out:+"$out"}
