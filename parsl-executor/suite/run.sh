#!/bin/sh
# Runs Parsl's own test suite from a checkout that you have, first with Parsl's HighThroughputExecutor, then with a
# burst buffer, and shows both summaries. It needs what the checkout's test-requirements.txt names (pytest below 8).
#
#   parsl-executor/suite/run.sh PYTHON CHECKOUT
set -eu
python=$1
checkout=$2
here=$(cd "$(dirname "$0")" && pwd)
results=$(mktemp -d)
"$python" -c 'import sys, pytest; sys.exit(int(pytest.__version__.split(".")[0]) >= 8)' || {
    echo "Parsl's suite needs pytest below 8: $python -m pip install 'pytest<8'" >&2
    exit 1
}
PATH=$(dirname "$python"):$PATH
cd "$checkout"
for config in parsl/tests/configs/htex_local.py "$here/htex_burst_buffer.py"; do
    log=$results/$(basename "$config" .py).log
    # The suite's own options stop at the first failure; a comparison wants all.
    "$python" -m pytest parsl/tests -k "not cleannet" --config "$config" -q -rfE -o addopts= >"$log" 2>&1 || true
    grep -oE '^(FAILED|ERROR) parsl/[^ ]*' "$log" | sort >"$log.failed" || true
    echo "$(basename "$config"): $(tail -n 1 "$log")"
done
if cmp -s "$results/htex_local.log.failed" "$results/htex_burst_buffer.log.failed"; then
    echo "The same tests fail with both: $(wc -l <"$results/htex_local.log.failed")"
    rm -r "$results"
else
    diff "$results/htex_local.log.failed" "$results/htex_burst_buffer.log.failed" || true
    echo "Logs: $results"
    exit 1
fi
