#!/usr/bin/env bash
# What brickctl set says when etcd is away, is something else, asks for TLS, a certificate or a password: one line, within seconds.
. "$(dirname "$0")/lib.sh"
status_of() { printf 'etcd://%s/home\n' "$1"; }

secret admin "the administrator's line"
for name in a b; do start_brick_of_set "$name" --admin-secret-file "$WORK/admin"; done
secret password sesame
secret wrong sesam
. "$TESTS/etcd/certificates.sh"

say "nobody there, and something else there"
nobody=127.0.0.1:$(free_port)
refused 1 "etcd at $nobody: cannot be reached" set status "$(status_of "$nobody")"
python3 -c 'import http.server, sys
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open(sys.argv[1], "w").write(str(server.server_port)); server.serve_forever()' "$WORK/http.port" 2>/dev/null &
BACKGROUND_PIDS+=("$!")
within 20 test -s "$WORK/http.port" || die "no HTTP server"
http=127.0.0.1:$(cat "$WORK/http.port")
within_seconds 3 refused 1 "etcd at $http: what answers there is not etcd.*HTTP status 501" set status "$(status_of "$http")"
refused 1 "etcd at 127.0.0.1:${BRICK_PORT[a]}: " set status "$(status_of "127.0.0.1:${BRICK_PORT[a]}")"
within_seconds 6 refused 1 'etcd at 192.0.2.1:2379: ' set status "$(status_of 192.0.2.1)"

say "etcd that is killed, stopped, and one endpoint of two"
start_etcd plain
plain=127.0.0.1:$ETCD_PORT
exits 0 set create "$(status_of "$nobody,$plain" | sed s/home/default/)" --replicas 2 "$(brick a)" "$(brick b)"
within_seconds 4 exits 0 set status "etcd://$nobody,$plain/default"

say "the answer to the transaction is lost"
python3 - "$ETCD_PORT" "$WORK/proxy.port" 2>/dev/null <<'PYTHON' &
import http.client, http.server, sys
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        etcd = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
        etcd.request("POST", self.path, self.rfile.read(int(self.headers["Content-Length"])))
        answer = etcd.getresponse().read()
        if self.path == "/v3/kv/txn": return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
open(sys.argv[2], "w").write(str(server.server_port))
server.serve_forever()
PYTHON
BACKGROUND_PIDS+=("$!")
within 20 test -s "$WORK/proxy.port" || die "no proxy"
for name in a b; do exits 0 volume create "$(brick "$name")" lost --admin-secret-file "$WORK/admin"; done
exits 0 set create "etcd://127.0.0.1:$(cat "$WORK/proxy.port")/lost" --replicas 2 "$(brick a)" "$(brick b)"
grep -q 'set lost is made' "$WORK/out" || die "a lost answer: $(cat "$WORK/out")"
exits 0 set status "etcd://$plain/lost"

say "etcd is stopped"
kill -STOP "${ETCD_PID[plain]}"
within_seconds 6 refused 1 "etcd at $plain: no answer in time" set status "etcd://$plain/default"
within_seconds 6 refused 1 "etcd at $nobody: cannot be reached.*; etcd at $plain: no answer in time" set status "etcd://$nobody,$plain/default"
kill -CONT "${ETCD_PID[plain]}"
exits 0 set status "etcd://$plain/default"
kill_etcd plain
within_seconds 4 refused 1 "etcd at $plain: cannot be reached" set status "etcd://$plain/default"

say "TLS"
ETCDCTL=(--cacert "$WORK/ca.pem")
ETCD_SCHEME=https start_etcd tls --cert-file "$WORK/server.pem" --key-file "$WORK/server.key"
tls=127.0.0.1:$ETCD_PORT
refused 1 'etcd knows no set home' set status "$(status_of "$tls")" --etcd-ca "$WORK/ca.pem"
exits 0 set create "$(status_of "$tls" | sed s/home/default/)" --replicas 2 "$(brick a)" "$(brick b)" --etcd-ca "$WORK/ca.pem"
refused 1 "etcd at $tls: its certificate is for another host, or nobody in $WORK/other.pem has signed it" set status "$(status_of "$tls")" --etcd-ca "$WORK/other.pem"
refused 1 "etcd at localhost:$ETCD_PORT: its certificate is for another host" set status "$(status_of "localhost:$ETCD_PORT")" --etcd-ca "$WORK/ca.pem"
refused 1 "etcd at $tls: .*(TLS|closed without an answer)" set status "$(status_of "$tls")"
refused 1 "cannot read $WORK/none.pem" set status "$(status_of "$tls")" --etcd-ca "$WORK/none.pem"
refused 1 "are no certificate and its key" set status "$(status_of "$tls")" --etcd-ca "$WORK/ca.pem" --etcd-cert "$WORK/client.pem" --etcd-key "$WORK/server.key"
kill -STOP "${ETCD_PID[tls]}"
within_seconds 6 refused 1 "etcd at $tls: no answer to a connection" set status "$(status_of "$tls")" --etcd-ca "$WORK/ca.pem"
kill_etcd tls
ETCDCTL+=(--cert "$WORK/client.pem" --key "$WORK/client.key")
ETCD_SCHEME=https start_etcd mutual --cert-file "$WORK/server.pem" --key-file "$WORK/server.key" --client-cert-auth --trusted-ca-file "$WORK/ca.pem"
mutual=127.0.0.1:$ETCD_PORT
refused 1 'etcd knows no set home' set status "$(status_of "$mutual")" --etcd-ca "$WORK/ca.pem" --etcd-cert "$WORK/client.pem" --etcd-key "$WORK/client.key"
refused 1 "etcd at $mutual: .*certificate" set status "$(status_of "$mutual")" --etcd-ca "$WORK/ca.pem"
kill_etcd mutual

say "users"
ETCDCTL=()
start_etcd users --auth-token-ttl 1
users=127.0.0.1:$ETCD_PORT
USERS=(--etcd-user brickfs --etcd-password-file "$WORK/password")
refused 1 "etcd at $users: it knows no users: name none" set status "$(status_of "$users")" "${USERS[@]}"
etcdctl() { command etcdctl --endpoints "$users" "$@" >/dev/null; }
etcdctl user add root:root
etcdctl user grant-role root root
etcdctl user add brickfs:sesame
etcdctl user add guest:sesame
etcdctl role add brickfs
etcdctl role grant-permission brickfs readwrite --prefix=true /brickfs/
etcdctl user grant-role brickfs brickfs
etcdctl auth enable
refused 1 "etcd at $users: it asks for a user and a password" set status "$(status_of "$users")"
refused 1 "etcd at $users: wrong user or password" set status "$(status_of "$users")" --etcd-user brickfs --etcd-password-file "$WORK/wrong"
refused 1 "etcd at $users: wrong user or password" set status "$(status_of "$users")" --etcd-user nobody --etcd-password-file "$WORK/password"
refused 1 "etcd at $users: the user may not read and write /brickfs/" set status "$(status_of "$users")" --etcd-user guest --etcd-password-file "$WORK/password"
exits 0 set create "$(status_of "$users" | sed s/home/default/)" --replicas 2 "$(brick a)" "$(brick b)" "${USERS[@]}"
exits 0 set status "etcd://$users/default" "${USERS[@]}"
chmod 644 "$WORK/password"
refused 1 "$WORK/password" set status "etcd://$users/default" "${USERS[@]}"

say "passed"
