#!/usr/bin/env bash
# Everything that a CUDA machine can check, in one command.
#
#   tools/gpu_check.sh [tests] [layouts] [demo] [bench] [arrays] [trees]      (tests, demo and bench by default)
#
# trees: the speed of this tree beside that of OTHER, in eight minutes. OTHER is the tree of another commit in a folder:
#   git archive --prefix=other/ COMMIT | tar x;  OTHER=other tools/gpu_check.sh trees
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
    section tests "$tests_limit" "$PYTHON" -m pytest -n "$WORKERS" -q -p no:cacheprovider \
        --junitxml="$OUT/tests.xml" -o junit_family=xunit1
    section tests-per-backend 20 "$PYTHON" tools/junit_summary.py "$OUT/tests.xml" --json "$OUT/tests.json"
}

name_files() { # the arguments that write figures, and a picture where there is matplotlib
    files=(--json "$OUT/$1.json")
    if has matplotlib; then files+=(--plot "$OUT/$1.png"); fi
}

run_layouts() { # ten thousand random layouts on each CUDA backend
    local name
    for name in cupy torch pycuda; do
        if has "$name"; then section "layouts-$name" 120 "$PYTHON" tools/random_layouts.py --backend "$name"; fi
    done
}

run_demo() {
    name_files demo
    section demo 60 "$PYTHON" -m xferlib demo "${files[@]}"
}

run_bench() {
    name_files bench-transfer
    section bench-transfer "$bench_limit" "$PYTHON" -m xferlib bench transfer "${files[@]}"
    name_files bench-kernels
    section bench-kernels "$bench_limit" "$PYTHON" -m benchmarks kernels "${files[@]}"
}

run_arrays() { # PyCUDA's namespace with the libraries of the extra pycuda-math: what a CPU holds by doubles alone
    section arrays-tests 300 "$PYTHON" -m pytest -n "$WORKERS" -q -p no:cacheprovider tests/arrays tests/test_files.py \
        -k "pycuda or cuda"
    section bench-arrays 240 "$PYTHON" -m benchmarks arrays --json "$OUT/bench-arrays.json"
}

run_trees() { # both built by the compiler that is here
    (cd "${OTHER:?names the folder of the other tree}" && "$PYTHON" -m xferlib._native.build)
    section trees 560 "$PYTHON" -m tools.compare_trees "$OTHER" --backends "${BACKENDS:-torch,cupy,pycuda}" \
        --seconds 480 --json "$OUT/trees.json"
}

tests_limit=480 bench_limit=240 # seconds, of a part by itself; together they share nine minutes
if [ $# -eq 0 ]; then
    tests_limit=220 bench_limit=105
    set -- tests demo bench
fi
"$PYTHON" -m xferlib._native.build # where the tree is used as it lies; installing does it too
section info 30 "$PYTHON" -m xferlib info
section doctor 90 "$PYTHON" -m xferlib doctor
for part in "$@"; do
    case $part in
        tests | layouts | demo | bench | arrays | trees) "run_$part" ;;
        *)
            echo "unknown section '$part': give tests, layouts, demo, bench, arrays or trees" >&2
            exit 2
            ;;
    esac
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]} (output in $OUT)"
    exit 1
fi
echo "all passed (output in $OUT)"
