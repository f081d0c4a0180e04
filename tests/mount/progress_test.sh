#!/usr/bin/env bash
# Long runs say how far they are, with rate and time left: a bar on a terminal, lines in a log. A mount that reads much, and the end of a brickd whose
# disk is slow. (brickctl check, umount and copies: unit tests of the bar, umount_test.sh, copies_test.sh.)
#   progress_test.sh
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/disk_lib.sh"

# on_terminal NAME COMMAND...: in the background, on a terminal of its own. What that shows is in $WORK/NAME.screen; the pid in $WORK/NAME.pid.
on_terminal() {
  python3 - "$WORK/$1" "${@:2}" <<'PYTHON' &
import os, pty, sys
name, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
with open(name + ".pid", "w") as file:
    file.write(f"{pid}\n")
with open(name + ".screen", "wb", buffering=0) as screen:
    while True:
        try:
            shown = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not shown:
            break
        screen.write(shown)
os.waitpid(pid, 0)
PYTHON
  BACKGROUND_PIDS+=("$!")
  within 10 test -s "$WORK/$1.pid" || die "$1 does not start"
  OTHER_PIDS+=("$(cat "$WORK/$1.pid")")
}
has_bar() { grep -aE "\[=*>? *\] +[0-9]+ %  [0-9]+ of [0-9]+ $2  [0-9]+/s  [0-9:]+ (s|min) left" "$WORK/$1.screen"; }   # NAME WHAT
has_line() { grep -E "info: [0-9]+ of [0-9]+ $2, [0-9]+/s, [0-9]+ s left$" "$WORK/$1.log"; }

# A way to the brick at PORT on which 2 MB a second come back; tells its own port.
start_slow_way() {
  python3 - "$1" "$WORK/slow.port" <<'PYTHON' &
import socket, sys, threading, time
target, told = int(sys.argv[1]), sys.argv[2]
pace = threading.Lock()
def carry(source, sink, is_slow):
    try:
        while data := source.recv(65536):
            if is_slow:
                with pace:
                    time.sleep(len(data) / 2e6)
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
listener = socket.create_server(("127.0.0.1", 0))
with open(told, "w") as file:
    file.write(f"{listener.getsockname()[1]}\n")
while True:
    client, _ = listener.accept()
    brick = socket.create_connection(("127.0.0.1", target))
    threading.Thread(target=carry, args=(client, brick, False), daemon=True).start()
    threading.Thread(target=carry, args=(brick, client, True), daemon=True).start()
PYTHON
  BACKGROUND_PIDS+=("$!")
  within 10 test -s "$WORK/slow.port" || die "no slow way"
}

start_brickd --memory 256M --file "$DISK/store" --size 256M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
python3 - "$MNT" <<'PYTHON'
import os, sys
for number in range(4000):  # 16 MB of rows
    os.symlink("x" * 4000, f"{sys.argv[1]}/{number}")
PYTHON
unmount_brickfs
mount_brickfs
: >"$MNT/last"
kill -9 "$(brickfs_pid)"
umount -i -l "$MNT"

say "a mount after a crash"
start_slow_way "$BRICKD_PORT"
slow=tcp://127.0.0.1:$(cat "$WORK/slow.port")/default
on_terminal mount "$BRICKFS" "$slow" "$MNT"
within 90 is_mounted || die "no mount: $(cat "$WORK/mount.screen")"
has_bar mount 'blocks of the checkpoint read' >/dev/null || die "no bar: $(cat -v "$WORK/mount.screen")"
kill -9 "$(brickfs_pid)"
umount -i -l "$MNT"
SOURCE=$slow mount_brickfs
has_line brickfs 'blocks of the checkpoint read' >/dev/null || die "no line: $(cat "$WORK/brickfs.log")"
kill -9 "$(brickfs_pid)"
umount -i -l "$MNT"

# What a client has written and not committed when it dies is newer in memory.
leave_unwritten() {
  "$BRICKCTL" bench "$SOURCE" --steal --seconds 60 --direction write --span 96M >/dev/null 2>&1 &
  local bench=$!
  disown "$bench"
  within 30 has_mapped || die "nothing is written: $("$BRICKCTL" status "$SOURCE")"
  sleep 1
  kill -9 "$bench"
}
has_mapped() { [ "$("$BRICKCTL" status "$SOURCE" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["mapped_bytes"] >> 20)')" -ge 96 ]; }
is_told_to_end() {  # PID, of a brickd: its disk stands still for some time then
  FROZEN=1
  fsfreeze -f "$DISK"
  kill -TERM "$1"
  sleep 4
  fsfreeze -u "$DISK"
  FROZEN=
}

say "the end of brickd, with its log"
leave_unwritten
is_told_to_end "$BRICKD_PID"
wait "$BRICKD_PID" || die "brickd: exit $?"
BRICKD_PID=
has_line brickd 'blocks written to the store' >/dev/null || die "no line: $(tail -n 5 "$WORK/brickd.log")"

say "the end of brickd, on a terminal"
rm "$WORK/port"
on_terminal brickd "$BRICKD" --listen "tcp://127.0.0.1:$BRICKD_PORT" --port-file "$WORK/port" --foreground --memory 256M --file "$DISK/store"
within 60 test -s "$WORK/port" || die "brickd does not start: $(cat "$WORK/brickd.screen")"
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
leave_unwritten
is_told_to_end "$(cat "$WORK/brickd.pid")"
within 60 test ! -d "/proc/$(cat "$WORK/brickd.pid")" || die "brickd does not end: $(cat "$WORK/brickd.screen")"
has_bar brickd 'blocks written to the store' >/dev/null || die "no bar: $(cat -v "$WORK/brickd.screen")"
