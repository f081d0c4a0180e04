#!/usr/bin/env bash
# brickd's page (--http), in Debian's Chromium: what it shows, on a screen and on a phone, light and dark; that it needs nothing from elsewhere, and changes nothing.
# page_test.sh [PICTURE]: the screenshot for docs/operations.md goes there.
. "$(dirname "$0")/../etcd/lib.sh"
command -v chromium >/dev/null || "$TESTS/../tools/install-packages" +chromium >"$WORK/packages.log" 2>&1 || { echo "no chromium here, and none to be had"; exit 77; }

start_etcd only
printf 'of the administrator\n' >"$WORK/admin"; chmod 600 "$WORK/admin"
start_brickd --memory 64M --file "$WORK/store" --size 256M --volume home:32M --volume mail:128M --volume photos --volume shared --volume disk10 --volume disk2 \
  --admin-secret-file "$WORK/admin" --http 127.0.0.1:0 --etcd "127.0.0.1:$ETCD_PORT"
PAGE=http://127.0.0.1:$(tail -n 1 "$WORK/port")
BRICK=tcp://127.0.0.1:$BRICKD_PORT
for volume in home:15 mail:31 photos:5; do timeout 60 "$BRICKCTL" alloc "$BRICK/${volume%:*}" 0 "${volume#*:}"; done
start_brick_of_set other --volume shared
exits 0 set create "etcd://127.0.0.1:$ETCD_PORT/shared" --replicas 2 "$BRICK" "$(brick other)"
key=/brickfs/$(etcdctl --endpoints "127.0.0.1:$ETCD_PORT" get --print-value-only /brickfs/names/shared)/map
map_is_edited() { etcdctl --endpoints "127.0.0.1:$ETCD_PORT" get --print-value-only "$key" | python3 -c "$1" | etcdctl --endpoints "127.0.0.1:$ETCD_PORT" put "$key" >/dev/null; }
map_is_edited 'import json, sys  # as its holder would write it while it copies
map = json.load(sys.stdin)
map["generation"] += 5
map["places"][0]["replicas"][1].update(state="syncing", since=3, copied_blocks=30, total_blocks=120)
map["holder"] = {"client": "0" * 15 + "1", "name": "brickfs on db1, pid 812", "epoch": 2, "let_go": False}
print(json.dumps(map))'
"$BRICKCTL" bench "$BRICK/mail" --seconds $((${BRICKFS_PAGE_SECONDS:-12} + 100)) --size 256K --span 16M --depth 2 >/dev/null 2>&1 &
BACKGROUND_PIDS+=("$!")
sleep "${BRICKFS_PAGE_SECONDS:-12}"  # for a line to be drawn
has_set() { python3 -c 'import json, sys, urllib.request
sys.exit(json.load(urllib.request.urlopen(sys.argv[1] + "/status.json", timeout=5))["replicated"]["sets"] == [])' "$PAGE"; }
within 20 has_set || die "the page is not told of the set"

browser() {  # ARGUMENT...: its standard output
  timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir="$WORK/chromium" --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' \
    --virtual-time-budget=4000 --hide-scrollbars "$@" "${ADDRESS:-$PAGE/}" 2>"$WORK/chromium.log"
}

say "what it shows"
browser --dump-dom >"$WORK/dom"
python3 - "$WORK/dom" <<'PYTHON'
import html, os, re, sys
dom = open(sys.argv[1]).read()
text = html.unescape(re.sub(r"<script.*?</script>|<[^>]*>", " ", dom, flags=re.S))
for wanted in ("118 MiB of 256 MiB allocated", "of 64.0 MiB memory in use", "durable, memory with store", "home", "mail", "photos", "brickctl, pid", "writes", "60 min ago",
               "shared fewer than 2 copies in sync · held by brickfs on db1, pid 812 · generation 6", "this brick", "being brought up to date: 60.0 MiB of 240 MiB"):
    assert wanted in text or wanted in re.sub(r"\s+", " ", text), (wanted, text)
assert dom.count("<polyline") == 4, "read, written, median, 99 %"
assert any(len(points.split()) > 1 for points in re.findall(r'<polyline points="([^"]*)"', dom)), "no line is drawn"
assert f"<title>brick on {os.uname().nodename}</title>" in dom, re.findall("<title>.*?</title>", dom)
assert text.index("disk2") < text.index("disk10"), "names are not in their natural order"
assert 'class="bar full"' in dom, "a volume that is full does not look so"
PYTHON

say "nothing from elsewhere, and nothing changed"
python3 - "$PAGE" <<'PYTHON'
import json, re, sys, urllib.error, urllib.request
page = urllib.request.urlopen(sys.argv[1] + "/", timeout=10)
text = page.read().decode()
assert "default-src 'none'" in page.headers["Content-Security-Policy"]
assert not re.search(r"\b(?:src|href|action)\s*=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", text), "the page asks elsewhere"
assert len(text) < 20000
status = json.load(urllib.request.urlopen(sys.argv[1] + "/status.json", timeout=10))
assert {volume["name"]: volume["used_bytes"] >> 21 for volume in status["volumes"]}["home"] == 15, status["volumes"]
assert status["history"] and max(point["written_bytes_per_second"] for point in status["history"]) > 0
assert status["clients"][0]["volume"] == "mail" and status["clients"][0]["mode"] == "writes"
for path, data in (("/status", None), ("/metrics", None), ("/status.json", b"x"), ("/", b"x" * 9000)):
    try:
        urllib.request.urlopen(sys.argv[1] + path, data, timeout=10)
        sys.exit(f"{path}: answered")
    except urllib.error.HTTPError as error:
        assert error.code in (400, 404, 405, 413), error
    except urllib.error.URLError:
        pass  # too long: the connection is closed
PYTHON

say "a client's name is text"
python3 - "$TESTS" "$BRICKD_PORT" >"$WORK/hostile" <<'PYTHON' &
import os, struct, sys, time
sys.path.insert(0, sys.argv[1] + "/attack")
import brick_wire
client = brick_wire.Connection(int(sys.argv[2]))
name = b"<img src=x onerror=document.title='hacked'>"
client.proved(brick_wire.OPEN, b"brickfs open", struct.pack("<QQQII64s128s", 77, 0, 0, brick_wire.OBSERVE, 0, b"photos", name))
print("there", flush=True)
time.sleep(60)
PYTHON
hostile=$!
BACKGROUND_PIDS+=("$hostile")
within 10 test -s "$WORK/hostile" || die "no client with such a name"
browser --dump-dom >"$WORK/dom"
grep -q '&lt;img src=x' "$WORK/dom" || die "the client's name is not there"
if grep -q '<img\|<title>hacked' "$WORK/dom"; then die "a client's name became a part of the page"; fi
kill "$hostile"

say "on a screen and on a phone, light and dark"
browser --window-size=1200,900 --screenshot="$WORK/light.png" --blink-settings=preferredColorScheme=1
browser --window-size=1200,900 --screenshot="$WORK/dark.png" --blink-settings=preferredColorScheme=0
browser --window-size=500,1400 --screenshot="$WORK/phone.png" --blink-settings=preferredColorScheme=1
python3 - "$WORK" <<'PYTHON'
import struct, sys, zlib
def brightness(path):
    """The mean of the bytes of the first lines, which are background: PNG, 8 bits, without filters that matter for that."""
    data = open(path, "rb").read()
    assert data.startswith(b"\x89PNG"), path
    at, packed, width = 8, b"", 0
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    channels = {2: 3, 6: 4}[colour]
    first = zlib.decompress(packed)[1:1 + channels]  # of the first line the first pixel: the same with every filter
    return sum(first[:3]) / 3, width
light, dark, phone = (brightness(f"{sys.argv[1]}/{name}.png") for name in ("light", "dark", "phone"))
assert light[0] > 200 and phone[0] > 200, (light, phone)
assert dark[0] < 60, dark
PYTHON
browser --window-size=500,1400 --dump-dom >"$WORK/phone.dom"
grep -q 'polyline' "$WORK/phone.dom" || die "nothing on a phone"

say "on 390 pixels nothing is wider than the page, and a long list pushes nothing down"
for number in $(seq 1 60); do timeout 20 "$BRICKCTL" volume create "$BRICK" "a-volume-with-a-name-that-is-as-long-as-names-may-be-here-$number:2M" --admin-secret-file "$WORK/admin" >/dev/null; done
python3 - "$PAGE" >"$WORK/measuring" <<'PYTHON' &
# The page in a frame of that width, and what a script measures of it beside it.
import http.server, sys, urllib.request
MEASURE = b"""<!doctype html><iframe id=f src="/" width=390 height=900></iframe><pre id=said></pre><script>
setTimeout(() => {
  const page = document.getElementById("f").contentDocument, top = id => page.getElementById(id).getBoundingClientRect().top;
  const wide = [...page.querySelectorAll("*")].filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible");
  document.getElementById("said").textContent = "width " + page.documentElement.scrollWidth + " wide " + wide.map(one => one.tagName + "." + one.className).join() +
    " rows " + page.querySelectorAll("#volumes tr").length + " list " + Math.round(top("clients") - top("volumes")) + " end";
}, 2500);
</script>"""
class Both(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = MEASURE if self.path == "/measure" else urllib.request.urlopen(sys.argv[1] + self.path, timeout=10).read()
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if self.path.endswith("json") else "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Both)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
BACKGROUND_PIDS+=("$!")
within 10 test -s "$WORK/measuring" || die "nothing to measure by"
ADDRESS=http://127.0.0.1:$(cat "$WORK/measuring")/measure browser --dump-dom >"$WORK/dom"
measured=$(sed -n 's/.*<pre id="said">\(.*\) end<\/pre>.*/\1/p' "$WORK/dom")
say "$measured"
read -r _ width _ wide rows_are rows _ list <<<"${measured/wide  rows/wide none rows}"
[ "$rows_are" = rows ] && [ "$rows" -gt 60 ] || die "the page is not measured: $measured"
[ "$width" -le 390 ] && [ "$wide" = none ] || die "the page is wider than a phone: $measured"
[ "$list" -lt 1000 ] || die "a list of volumes pushes the clients down: $measured"

if [ $# -gt 0 ]; then cp "$WORK/light.png" "$1"; cp "$WORK/dark.png" "${1%.png}-dark.png"; cp "$WORK/phone.png" "${1%.png}-phone.png"; fi

say "passed"
