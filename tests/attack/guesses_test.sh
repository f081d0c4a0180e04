#!/usr/bin/env bash
# Guessing the secret: by many connections at once, from one address, none waited for. Few guesses are answered, and few lines logged.
. "$(dirname "$0")/../mount/lib.sh"
export PYTHONDONTWRITEBYTECODE=1

printf 'correct horse battery staple' >"$WORK/secret"
chmod 600 "$WORK/secret"
start_brickd --memory 64M --secret-file "$WORK/secret"
say "guesses from 127.0.0.1, for ten seconds"
timeout 60 python3 - "$(dirname "$0")" "$BRICKD_PORT" >"$WORK/guesses" <<'P' || die "the guesser fails"
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import brick_wire as wire
answered, end = [], time.monotonic() + 10
def guess(number):
    while time.monotonic() < end:
        try:
            wire.Session(int(sys.argv[2]), secret=b"guess %d" % number, timeout=5)
        except wire.Refused:
            answered.append(number)
        except OSError:
            pass
threads = [threading.Thread(target=guess, args=(number,)) for number in range(64)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(answered))
P
answered=$(cat "$WORK/guesses")
lines=$(grep -c 'secret is wrong' "$WORK/brickd.log")
say "$answered guesses answered, $lines lines logged"
# 64 at once and then 32 a second, two seconds each.
[ "$answered" -le 500 ] || die "guesses are not slowed down"
[ "$lines" -le 3 ] || die "each guess logs a line"
say "who knows the secret gets in, at that address too"
timeout 20 "$BRICKCTL" status "tcp://127.0.0.1:$BRICKD_PORT/default" --secret-file "$WORK/secret" >/dev/null || die "who knows the secret does not get in"
say "ok"
