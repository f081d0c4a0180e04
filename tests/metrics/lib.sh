# Sourced by the tests with Prometheus, behind tests/mount/lib.sh: PATH has Debian's prometheus and promtool, unpacked only, as installed it would be
# a service of this machine. Exit 77: it is not there, and cannot be had.
if [ ! -x "$CACHE/prometheus/usr/bin/promtool" ]; then
  mkdir -p "$WORK/package" "$CACHE"
  (cd "$WORK/package" && apt-get -qq download prometheus >/dev/null 2>&1) || { say "Debian's prometheus cannot be had"; exit 77; }
  dpkg-deb -x "$WORK"/package/*.deb "$WORK/unpacked"
  mv -T "$WORK/unpacked" "$CACHE/prometheus" 2>/dev/null || [ -x "$CACHE/prometheus/usr/bin/promtool" ]  # another test was faster
fi
PATH=$CACHE/prometheus/usr/bin:$PATH
