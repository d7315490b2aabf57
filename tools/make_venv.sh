#!/bin/sh
# Make a virtual environment with a Python of at least 3.11:  tools/make_venv.sh DIRECTORY
set -eu

is_usable() { # run it: a launcher may be on PATH for a version that is not installed
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

chosen=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    if is_usable "$candidate"; then
        chosen=$candidate
        break
    fi
done
if [ -z "$chosen" ]; then
    echo "xferlib needs Python 3.11 or newer with venv and ensurepip, and none of these is: ${PYTHON:-python3 python3.13 python3.12 python3.11 python}." >&2
    echo "Install one (on Debian and Ubuntu: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python" >&2
    exit 1
fi

has_gpu() { # the driver is there and sees a device
    "$chosen" -c '
import ctypes, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int(0)
    sys.exit(not (driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value))
except OSError:
    sys.exit(1)'
}

echo "making an environment in $1 for $("$chosen" --version): some seconds"
"$chosen" -m venv --clear "$1"
if has_gpu; then
    # The packages of the chosen interpreter stay visible, also when it is itself in an environment.
    "$chosen" -c '
import site, sysconfig
paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
if site.ENABLE_USER_SITE:
    paths.add(site.getusersitepackages())
print("\n".join(sorted(paths)))' >"$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/installed-backends.pth"
    echo "NVIDIA driver found: the environment sees what is installed for $chosen"
fi
