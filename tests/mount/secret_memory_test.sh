#!/usr/bin/env bash
# A secret is in no core dump: brickd, a mount and a program of the library have it in pages that the kernel leaves out, and nowhere else.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/memory_lib.sh"
secret() { head -c 24 /dev/urandom | base64 -w 0 >"$WORK/$1"; chmod 600 "$WORK/$1"; }
secret clients
secret admin

say "that it is looked for well"
PLAIN=$(cat "$WORK/clients") sleep 60 &
BACKGROUND_PIDS+=($!)
dumped $! "$WORK/clients" >/dev/null || die "a secret in the environment is not found"

say "brickd, at rest and with a mount"
start_brickd --memory 64M --volume home --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
kept_out brickd "$BRICKD_PID" "$WORK/clients" "$WORK/admin"
mount_brickfs "secret=$WORK/clients,tls=require"
echo something >"$MNT/file" && sync "$MNT/file"
timeout 60 "$BRICKCTL" volume list "tcp://127.0.0.1:$BRICKD_PORT" --admin-secret-file "$WORK/admin" >/dev/null || die "volume list"
kept_out brickd "$BRICKD_PID" "$WORK/clients" "$WORK/admin"
say "the mount, also after it has connected again"
kept_out brickfs "$(brickfs_pid)" "$WORK/clients"
kill_brickd TERM
restart_brickd
timeout 60 ls "$MNT" >/dev/null 2>&1 || true
kept_out brickfs "$(brickfs_pid)" "$WORK/clients"
python=$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)  # for which the module is built
if [ -d "$BUILD/fs/library/python/brickfs" ]; then
  say "a program of the library"
  PYTHONPATH=$BUILD/fs/library/python LD_LIBRARY_PATH=$BUILD/fs/library PYTHONDONTWRITEBYTECODE=1 "$python" -c 'import brickfs, sys, time
volume = brickfs.FileSystem(sys.argv[1], "secret=" + sys.argv[2])
with volume.open("/file", "wb") as file: file.write(b"something")
open(sys.argv[3], "w").close()
time.sleep(60)' "tcp://127.0.0.1:$BRICKD_PORT/home" "$WORK/clients" "$WORK/wrote" &
  BACKGROUND_PIDS+=("$!")
  within 20 test -e "$WORK/wrote" || die "the library writes nothing"
  kept_out "the library" "$!" "$WORK/clients"
fi
say "brickd has read them again"
kill -HUP "$BRICKD_PID"
within 10 grep -q 'SIGHUP: the secret is what' "$WORK/brickd.log" || die "SIGHUP is not heard"
kept_out brickd "$BRICKD_PID" "$WORK/clients" "$WORK/admin"
pid=$(brickfs_pid)
timeout 60 umount "$MNT" || umount -l "$MNT"
within 20 test ! -d "/proc/$pid" || kill -9 "$pid"
