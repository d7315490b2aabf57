#!/usr/bin/env bash
# Everything that a CUDA machine can check, in one command.
#
#   tools/gpu_check.sh [tests] [demo] [bench]      (all three by default)
#
# Writes its results under $OUT (./gpu-results). Needs Python 3.11+ with the packages importable, and no network.
# Each section has its own time limit, so that a hang in one leaves the others their turn: under 9 minutes in all.
set -uo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
OUT=$(mkdir -p "${OUT:-gpu-results}" && cd "${OUT:-gpu-results}" && pwd)
WORKERS=${WORKERS:-8}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
failed=()

section() { # name, seconds, command...
    local name=$1 limit=$2 start=$SECONDS rc
    shift 2
    printf '\n=== %s\n' "$name"
    timeout --kill-after=10 "$limit" "$@" 2>&1 | tee "$OUT/$name.txt" | tail -n 60
    rc=${PIPESTATUS[0]}
    printf '=== %s: exit %d after %d s\n' "$name" "$rc" "$((SECONDS - start))"
    [ "$rc" -eq 0 ] || failed+=("$name")
}

has() { "$PYTHON" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$1') is None)" 2>/dev/null; }

run_tests() {
    section tests 270 "$PYTHON" -m pytest -n "$WORKERS" -q -p no:cacheprovider \
        --junitxml="$OUT/tests.xml" -o junit_family=xunit1
    section tests-per-backend 20 "$PYTHON" tools/junit_summary.py "$OUT/tests.xml" --json "$OUT/tests.json"
}

files() { # the arguments that write figures, and a picture where there is matplotlib
    echo "--json $OUT/$1.json"
    if has matplotlib; then echo "--plot $OUT/$1.png"; fi
}

run_demo() {
    # shellcheck disable=SC2046 - split on purpose
    section demo 90 "$PYTHON" -m xferlib demo $(files demo)
}

run_bench() {
    local name
    for name in transfer kernels; do
        if has "xferlib.bench.$name"; then
            # shellcheck disable=SC2046
            section "bench-$name" 150 "$PYTHON" -m xferlib bench "$name" $(files "bench-$name")
        else
            echo "no xferlib.bench.$name: skipped"
        fi
    done
}

section info 60 "$PYTHON" -m xferlib info
[ $# -gt 0 ] || set -- tests demo bench
for part in "$@"; do
    case $part in
        tests | demo | bench) "run_$part" ;;
        *)
            echo "unknown section '$part': give tests, demo or bench" >&2
            exit 2
            ;;
    esac
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]} (output in $OUT)"
    exit 1
fi
echo "all passed (output in $OUT)"
