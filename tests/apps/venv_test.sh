#!/usr/bin/env bash
# A Python virtual environment: made, a package installed into it with its pip, compiled, used from several processes, moved on
# to another mount.   venv_test.sh [tcp|file|memory]
. "$(dirname "$0")/lib.sh"
kind=${1:-file}
need python3 python3-venv
start_brick "$kind" 1G
mount_brickfs

say "python3 -m venv"
/usr/bin/python3 -m venv "$MNT/venv" >"$WORK/venv.log" 2>&1 || die "venv"
"$MNT/venv/bin/python" -c 'import sys; assert sys.prefix.endswith("/venv"), sys.prefix' || die "the interpreter does not see its environment"

say "a package, by pip"
/usr/bin/python3 - "$WORK" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + "/sample-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("sample/__init__.py", "def main():\n    print('sample runs')\n")
    for n in range(300):
        wheel.writestr(f"sample/part{n}.py", f"value = {n}\n")
    wheel.writestr("sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
    wheel.writestr("sample-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("sample-1.0.dist-info/entry_points.txt", "[console_scripts]\nsample = sample:main\n")
    names = wheel.namelist() + ["sample-1.0.dist-info/RECORD"]
    wheel.writestr("sample-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in names))
END
pip() { PIP_NO_INDEX=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 "$MNT/venv/bin/pip" -q "$@" >"$WORK/pip.log" 2>&1 || die "pip $1"; }
pip install "$WORK/sample-1.0-py3-none-any.whl"
[ "$("$MNT/venv/bin/sample")" = "sample runs" ] || die "the installed program"

say "compiled, and imported by four processes at a time"
"$MNT/venv/bin/python" -m compileall -q -j 2 "$MNT/venv/lib" || die "compileall"
pids=()
for _ in 1 2 3 4; do
  "$MNT/venv/bin/python" -c 'import importlib; assert sum(importlib.import_module(f"sample.part{n}").value for n in range(300)) == 44850' & pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || die "an import"; done
pip check
unmount_brickfs
if [ "$kind" != memory ]; then
  check_volume
  mount_brickfs
  # Compiled files that are older than their sources, or of another size, would be written anew.
  find "$MNT/venv" -name '*.pyc' -printf '%P %i %T@\n' | sort >"$WORK/before"
  [ "$("$MNT/venv/bin/sample")" = "sample runs" ] || die "the installed program after a remount"
  find "$MNT/venv" -name '*.pyc' -printf '%P %i %T@\n' | sort | cmp - "$WORK/before" || die "times or sizes are not kept: files were compiled again"
  pip uninstall -y sample
  [ ! -e "$MNT/venv/bin/sample" ] || die "uninstalled, and still there"
  unmount_brickfs
fi
