#!/usr/bin/env bash
# The library, by Python, on a set whose etcd asks for TLS and a user, or a certificate: its files, and what it says when it may not.
. "$(dirname "$0")/lib.sh"
. "$TESTS/etcd/certificates.sh"
python=$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)  # for which the module is built
export PYTHONPATH=$BUILD/fs/library/python LD_LIBRARY_PATH=$BUILD/fs/library PYTHONDONTWRITEBYTECODE=1
[ -d "$PYTHONPATH/brickfs" ] || { say "left out: no Python module was built"; exit 77; }
secret admin "the administrator's line"
secret password sesame
secret wrong sesam
for name in a b; do start_brick_of_set "$name" --admin-secret-file "$WORK/admin"; done

say "a user"
ETCDCTL=(--cacert "$WORK/ca.pem")
ETCD_SCHEME=https start_etcd users --cert-file "$WORK/server.pem" --key-file "$WORK/server.key"
etcd=127.0.0.1:$ETCD_PORT
etcdctl() { command etcdctl --endpoints "https://$etcd" "${ETCDCTL[@]}" "$@" >/dev/null; }
etcdctl user add root:root
etcdctl user grant-role root root
etcdctl user add brickfs:sesame
etcdctl role add brickfs
etcdctl role grant-permission brickfs readwrite --prefix=true /brickfs/
etcdctl user grant-role brickfs brickfs
etcdctl auth enable
create() { exits 0 set create "etcd://$etcd/default" --replicas 2 "$(brick a)" "$(brick b)" --etcd-ca "$WORK/ca.pem" "$@"; }
create --etcd-user brickfs --etcd-password-file "$WORK/password"
run() { timeout 60 "$python" - "etcd://$etcd/default" "$@"; }

works() {
  run "durable,$1" <<'PYTHON' || die "the library does not open the set"
import sys
import brickfs

with brickfs.FileSystem(sys.argv[1], sys.argv[2]) as fs:
    with fs.open("/x", "wb") as file:
        file.write(b"copied")
with brickfs.FileSystem(sys.argv[1], "ro," + sys.argv[2]) as fs:
    with fs.open("/x", "rb") as file:
        assert file.read() == b"copied"
PYTHON
}
refuses() {  # PATTERN OPTIONS
  local said
  said=$(run "$2" <<'PYTHON'
import sys
import brickfs

try:
    brickfs.FileSystem(sys.argv[1], sys.argv[2]).close()
except OSError as error:
    print(error)
PYTHON
  )
  [[ $said =~ $1 ]] || die "with $2 the library says '$said', not '$1'"
}
user=etcd_user=brickfs,etcd_password=$WORK/password
works "etcd_ca=$WORK/ca.pem,$user"
refuses "etcd at $etcd: its certificate is for another host, or nobody in $WORK/other.pem has signed it" "etcd_ca=$WORK/other.pem,$user"
refuses "etcd at $etcd: .*(TLS|closed without an answer)" "$user"
refuses "etcd at $etcd: it asks for a user and a password" "etcd_ca=$WORK/ca.pem"
refuses "etcd at $etcd: wrong user or password" "etcd_ca=$WORK/ca.pem,etcd_user=brickfs,etcd_password=$WORK/wrong"
refuses "bad value: etcd_user=" "etcd_user="
refuses "unknown option: etcd_host=x" "etcd_host=x"
kill_etcd users

say "a certificate"
for name in a b; do kill_brick_of_set "$name"; rm -f "$WORK/$name.store"; start_brick_of_set "$name"; done
ETCDCTL+=(--cert "$WORK/client.pem" --key "$WORK/client.key")
ETCD_SCHEME=https start_etcd mutual --cert-file "$WORK/server.pem" --key-file "$WORK/server.key" --client-cert-auth --trusted-ca-file "$WORK/ca.pem"
etcd=127.0.0.1:$ETCD_PORT
create --etcd-cert "$WORK/client.pem" --etcd-key "$WORK/client.key"
works "etcd_ca=$WORK/ca.pem,etcd_cert=$WORK/client.pem,etcd_key=$WORK/client.key"
refuses "etcd at $etcd: .*certificate" "etcd_ca=$WORK/ca.pem"
say "passed"
