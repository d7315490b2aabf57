#!/usr/bin/env bash
# Everything that a CUDA machine can check, in one command.
#
#   tools/gpu_check.sh [section ...]      (tests, demo and bench by default, under 9 minutes in all)
#
#   tests      the test suite                         demo       the demo
#   arrays     the tests of PyCUDA's namespace        bench      transfers and kernels beside other libraries'
#   sweep      random transfers, kernels and reductions, 3 seeds  overlap    prefetch and stream_map
#   several    what needs two GPUs or more            suites     the peers' own tests, from checkouts under $PEERS
#   trees      speed beside the tree of another commit in the folder $OTHER, in eight minutes or $TREES_SECONDS:
#              git archive --prefix=other/ COMMIT | tar x;  OTHER=other tools/gpu_check.sh trees
#
# Writes its results under $OUT (./gpu-results). Needs Python 3.11+ with the packages importable, and no network.
# Each section has its own time limit, so that a hang in one leaves the others their turn.
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
    COUNTS="$OUT/tests.json" section tests "$tests_limit" "$PYTHON" -m pytest -n "$WORKERS" -q -p no:cacheprovider \
        -p tools.gpu_report --junitxml="$OUT/tests.xml" -o junit_family=xunit1
}

name_files() { # the arguments that write figures, and a picture where there is matplotlib
    files=(--json "$OUT/$1.json")
    if has matplotlib; then files+=(--plot "$OUT/$1.png"); fi
}

run_demo() {
    name_files demo
    section demo 60 "$PYTHON" -m xferlib demo "${files[@]}"
}

run_bench() {
    section bench-transfer "$bench_limit" "$PYTHON" -m xferlib bench transfer --json "$OUT/bench-transfer.json"
    name_files bench-kernels
    section bench-kernels "$bench_limit" "$PYTHON" -m benchmarks kernels "${files[@]}"
}

run_arrays() { # PyCUDA's namespace with the libraries of the extra pycuda-math: what a CPU holds by doubles alone
    section arrays-tests 300 "$PYTHON" -m pytest -n "$WORKERS" -q -p no:cacheprovider tests/arrays tests/test_files.py \
        -k "pycuda or cuda"
}

run_sweep() { # seeds from the clock; a sweep takes some 25 s longer than the cases that it draws
    local number
    for number in 1 2 3; do
        section "sweep-$number" $((SWEEP_SECONDS + 60)) "$PYTHON" -m xferlib bench sweep --seconds "$SWEEP_SECONDS" \
            --json "$OUT/sweep-$number.json"
    done
}

run_overlap() {
    name_files overlap
    section overlap "$bench_limit" "$PYTHON" -m benchmarks overlap --map 4GiB "${files[@]}"
}

run_several() { # ranks over NCCL by both launchers, then the failure matrix
    local pytest=("$PYTHON" -m pytest -q -p no:cacheprovider -p tools.gpu_report) mpi=(mpiexec -n 2)
    local ranks=(tests/distributed/ranks/{collectives,parameters,devices}.py)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # or it does not even tell its version
    if mpiexec --version 2>&1 | grep -qi "open mpi"; then mpi+=(--oversubscribe); fi
    export RES_OPTIONS="timeout:1 attempts:1" # PyTorch asks for the names of addresses, and a machine may know none
    section ranks-torchrun 200 torchrun --standalone --nproc-per-node=2 -m pytest -q -p no:cacheprovider -p no:xdist \
        "${ranks[@]}"
    section ranks-mpiexec 200 "${mpi[@]}" "${pytest[@]}" -p no:xdist "${ranks[@]}"
    section group 240 "${pytest[@]}" tests/distributed/test_group.py -k gpus
    # Without the two ranks of torchrun, which have run above.
    section communicator 240 "${pytest[@]}" -n 4 tests/distributed/test_{communicator,parameters}.py tests/test_two_devices.py \
        -k "not torch-2"
}

run_suites() { # counts are lines that `python -m tools.peer_suites --merge FILE` takes where the page is written
    local peer folders=()
    for peer in cupy pycuda; do
        if [ -d "${PEERS:-}/$peer" ]; then folders+=("$peer=$PEERS/$peer"); fi
    done
    for peer in cupy torch pycuda; do
        if has "$peer"; then section "suites-$peer" 300 "$PYTHON" -m tools.peer_suites "${folders[@]}" \
            --backend "$peer" --lines; fi
    done
}

run_trees() { # both built by the compiler that is here
    (cd "${OTHER:?names the folder of the other tree}" && "$PYTHON" -m xferlib._native.build)
    section trees $((TREES_SECONDS + 80)) "$PYTHON" -m tools.compare_trees "$OTHER" \
        --backends "${BACKENDS:-torch,cupy,pycuda}" --seconds "$TREES_SECONDS" --json "$OUT/trees.json"
}

SWEEP_SECONDS=${SWEEP_SECONDS:-60} TREES_SECONDS=${TREES_SECONDS:-480}
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
        tests | demo | bench | arrays | sweep | overlap | several | suites | trees) "run_$part" ;;
        *)
            echo "unknown section '$part'; the sections are listed in the first lines of $0" >&2
            exit 2
            ;;
    esac
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]} (output in $OUT)"
    exit 1
fi
echo "all passed (output in $OUT)"
