# Sourced by the tests with Prometheus, behind tests/mount/lib.sh: PATH has Debian's prometheus and promtool, unpacked only, as installed it would be
# a service of this machine. Exit 77: it is not there, and cannot be had.
if [ ! -x "$CACHE/prometheus/usr/bin/promtool" ]; then
  mkdir -p "$WORK/package" "$CACHE"
  (cd "$WORK/package" && apt-get -qq download prometheus >/dev/null 2>&1) || { say "Debian's prometheus cannot be had"; exit 77; }
  dpkg-deb -x "$WORK"/package/*.deb "$WORK/unpacked"
  mv -T "$WORK/unpacked" "$CACHE/prometheus" 2>/dev/null || [ -x "$CACHE/prometheus/usr/bin/promtool" ]  # another test was faster
fi
PATH=$CACHE/prometheus/usr/bin:$PATH

# With many instances chosen at once, every line of a dashboard says of which it is, and no panel has more lines than one can read: FILE.
tells_instances_apart() {
  python3 - "$1" <<'PYTHON'
import json, re, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel["targets"]:
        expression, legend = target["expr"], target["legendFormat"]
        assert "{{instance}}" in legend, (panel["title"], legend)
        assert all("instance" in group for group in re.findall(r"by \(([^)]*)\)", expression)), expression
        assert expression.count("instance=~") == len(re.findall(r"\b(?:brickfs|brickd)_\w+", expression)), expression
        labels = set(re.findall(r"{{(\w+)}}", legend)) - {"instance", "state", "mode", "direction"}
        assert not labels or re.match(r"(?:top|bottom)k\(", expression), (panel["title"], expression)
PYTHON
}
