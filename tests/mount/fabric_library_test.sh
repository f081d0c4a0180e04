#!/usr/bin/env bash
# libfabric is a process's when it uses fabric://, and no other's; and what it is linked with does not take the signals of a crash.
. "$(dirname "$0")/lib.sh"
has_libfabric() { grep libfabric "/proc/$1/maps" >/dev/null; }
caught() { awk '/^SigCgt:/ { print $2 }' "/proc/$1/status"; }

start_brick tcp 64M
! has_libfabric "$BRICKD_PID" || die "brickd has libfabric for tcp://"
of_brickd=$(caught "$BRICKD_PID")
mount_brickfs
! has_libfabric "$(brickfs_pid)" || die "brickfs has libfabric for tcp://"
of_brickfs=$(caught "$(brickfs_pid)")
unmount_brickfs
kill_brickd TERM

start_brick fabric 64M
has_libfabric "$BRICKD_PID" || die "brickd serves fabric:// without libfabric"
mount_brickfs
has_libfabric "$(brickfs_pid)" || die "brickfs mounts fabric:// without libfabric"
[ "$(caught "$BRICKD_PID")" = "$of_brickd" ] || die "signals that brickd catches with libfabric: $(caught "$BRICKD_PID"), without: $of_brickd"
[ "$(caught "$(brickfs_pid)")" = "$of_brickfs" ] || die "signals that brickfs catches with libfabric: $(caught "$(brickfs_pid)"), without: $of_brickfs"
unmount_brickfs
