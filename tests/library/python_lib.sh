# Sourced by tests of the Python module, after mount/lib.sh: `python`, for which it is built, finds it.
python=$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)
export PYTHONPATH=$BUILD/fs/library/python LD_LIBRARY_PATH=$BUILD/fs/library PYTHONDONTWRITEBYTECODE=1
[ -d "$PYTHONPATH/brickfs" ] || { say "left out: no Python module was built"; exit 77; }
