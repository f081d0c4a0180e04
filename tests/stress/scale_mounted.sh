#!/usr/bin/env bash
# How time and memory grow with the size of a file, the extents of a sparse one, open files and threads: tables, through a mount of a brick in memory.
#   scale_mounted.sh [tcp|memory [OPTIONS of scale_mounted...]]        with BRICKFS_IO_URING=on: over io_uring
. "$(dirname "$0")/../mount/lib.sh"
kind=${1:-tcp} size=18G
case $kind in
  tcp) start_brickd --memory "$size"; SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default ;;
  memory) start_brick memory "$size" ;;
  *) die "unknown kind of brick: $kind" ;;
esac
mount_brickfs
"$BUILD/tests/scale_mounted" "$MNT" --client "$(brickfs_pid)" "${@:2}"
unmount_brickfs
