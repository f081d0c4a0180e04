# Sourced behind lib.sh: an authority (ca), another one (other), and certificates of the first in $WORK: server, elsewhere, client.
openssl_quietly() { openssl "$@" 2>>"$WORK/openssl.err" || die "openssl $1: $(tail -n 2 "$WORK/openssl.err")"; }
certificate() {  # NAME SUBJECT-ALTERNATIVE
  openssl_quietly req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$WORK/$1.key" -out "$WORK/$1.request"
  openssl_quietly x509 -req -in "$WORK/$1.request" -CA "$WORK/ca.pem" -CAkey "$WORK/ca.key" -CAcreateserial -days 2 \
    -extfile <(echo "subjectAltName=$2") -out "$WORK/$1.pem"
}
for ca in ca other; do openssl_quietly req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$ca" -keyout "$WORK/$ca.key" -out "$WORK/$ca.pem"; done
certificate server IP:127.0.0.1
certificate elsewhere DNS:elsewhere.example
certificate client DNS:client
