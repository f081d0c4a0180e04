#!/usr/bin/env bash
# Administrators' calls over RDMA: volumes made, listed and removed, and who may not.
. "$(dirname "$0")/lib.sh"

printf 'of the clients\n' >"$WORK/clients"; printf 'of the administrator\n' >"$WORK/admin"; chmod 600 "$WORK/clients" "$WORK/admin"
start_rdma_brick --memory 64M --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
BRICK=$SCHEME://${ADDRESSES[0]}:$BRICKD_PORT
volume() { timeout 60 "$BRICKCTL" volume "$@" --admin-secret-file "$WORK/admin"; }
denied() { if timeout 60 "$BRICKCTL" volume list "$BRICK" --admin-secret-file "$WORK/$1" 2>"$WORK/err"; then die "$1: let in"; fi; grep -q "administrator's secret is wrong" "$WORK/err" || die "$1: $(cat "$WORK/err")"; }

volume create "$BRICK" home:8M
if volume create "$BRICK" home 2>"$WORK/err"; then die "a volume twice"; fi
grep -q 'there is a volume home already' "$WORK/err" || die "it says: $(cat "$WORK/err")"
for i in $(seq "$(scaled 40)"); do volume create "$BRICK" "v$i"; done
volume list "$BRICK" >"$WORK/list"
[ "$(grep -c '^v' "$WORK/list")" = $(($(scaled 40) + 1)) ] || die "list: $(cat "$WORK/list")"
timeout 60 "$BRICKCTL" alloc "$BRICK/home" 0 4 --secret-file "$WORK/clients"
if volume remove "$BRICK" home 2>"$WORK/err"; then die "a volume with blocks is removed"; fi
grep -q 'not empty: 4 blocks' "$WORK/err" || die "it says: $(cat "$WORK/err")"
SOURCE=$BRICK/home
volume remove "$BRICK" home --force
if timeout 60 "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/clients" 2>"$WORK/err"; then die "a removed volume is there"; fi
grep -q 'no volume home' "$WORK/err" || die "it says: $(cat "$WORK/err")"
denied clients
say "passed"
