// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tls.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/brick/limits.h"

namespace brickfs::tcp {

// Below OpenSSL.
struct TlsWire {
  int fd = -1;
  bool holds = false;  // what is written now, which goes in front of what is written next
  std::vector<char> held;
};

namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr size_t kAtOnce = 256 * kKiB;  // one way; then the other has its turn
constexpr std::array<unsigned char, 2> kCipher = {0x13, 0x01};
constexpr const char* kCipherName = "TLS_AES_128_GCM_SHA256";
constexpr std::string_view kPurpose = "brickfs tls";
constexpr const char* kOtherSecret = "the secret differs";

using Identity = std::array<unsigned char, sizeof(KeyId)>;

Identity identity_of(KeyId id) {
  Identity identity;
  std::memcpy(identity.data(), &id, sizeof(id));
  return identity;
}

// --- the socket: without waiting, and without a signal when the peer has gone

int moved(BIO* bio, ssize_t bytes, int retry_flag) {
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(bytes);
}

int write_to_socket(BIO* bio, const char* data, int length) {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  TlsWire& wire = *static_cast<TlsWire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (wire.holds) {
    wire.held.insert(wire.held.end(), data, data + length);
    return length;
  }
  while (!wire.held.empty()) {
    const ssize_t sent = ::send(wire.fd, wire.held.data(), wire.held.size(), kFlags);
    if (sent < 0) return moved(bio, sent, BIO_FLAGS_WRITE);
    wire.held.erase(wire.held.begin(), wire.held.begin() + sent);
  }
  return moved(bio, ::send(wire.fd, data, static_cast<size_t>(length), kFlags), BIO_FLAGS_WRITE);
}

int read_from_socket(BIO* bio, char* data, int length) {
  const TlsWire& wire = *static_cast<const TlsWire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  return moved(bio, ::recv(wire.fd, data, static_cast<size_t>(length), MSG_DONTWAIT), BIO_FLAGS_READ);
}

long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write(made, write_to_socket);
    BIO_meth_set_read(made, read_from_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  return method;
}

// --- keys

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

// For this use alone, so that nothing that was proved by the secret elsewhere is of use here.
std::unique_ptr<SSL_SESSION, FreeSession> session_of(SSL* ssl, const Secret& secret) {
  Proof key = make_proof(secret, kPurpose, {}, {});
  std::unique_ptr<SSL_SESSION, FreeSession> session(SSL_SESSION_new());
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipher.data());
  const bool is_made =
      session && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session.get(), reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  OPENSSL_cleanse(key.data(), key.size());
  return is_made ? std::move(session) : nullptr;
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* length, SSL_SESSION** session);
int find_key(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session);

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// Nothing is resumed, so nothing is kept of a connection. By `verify` the peer's certificate would have to be of an
// authority that is known, and none is.
SSL_CTX* make_context(const SSL_METHOD* method, int verify) {
  std::unique_ptr<SSL_CTX, FreeContext> context(SSL_CTX_new(method));
  if (!context) return nullptr;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_clear_options(context.get(), SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_verify(context.get(), verify, nullptr);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(context.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(context.get(), find_key);
  const bool is_set = SSL_CTX_set_ciphersuites(context.get(), kCipherName) == 1 &&
                      SSL_CTX_set1_groups_list(context.get(), "X25519") == 1;
  return is_set ? context.release() : nullptr;
}

SSL_CTX* client_context() {
  static SSL_CTX* const context = make_context(TLS_client_method(), SSL_VERIFY_PEER);
  return context;
}

SSL_CTX* server_context() {
  static SSL_CTX* const context = make_context(TLS_server_method(), SSL_VERIFY_NONE);
  return context;
}

}  // namespace

struct TlsSession::Impl {
  struct Free {
    void operator()(SSL* one) const { SSL_free(one); }
  };

  static Result<std::unique_ptr<Impl>> make(SSL_CTX* context, int fd);
  Error error(int outcome) const;
  Result<size_t> send_record(std::span<const iovec> parts, size_t skip);
  void renew_key();

  TlsWire wire;
  std::unique_ptr<SSL, Free> ssl;
  bool is_up = false;
  uint64_t rekey_bytes = kTlsRekeyBytes;
  uint64_t sent_bytes = 0;  // by the key in use
  Secret secret;            // a client's
  Identity identity{};
  FindSecret find;  // a server's
  std::array<std::byte, kRecordBytes> record;
};

namespace {

TlsSession::Impl& impl_of(SSL* ssl) { return *static_cast<TlsSession::Impl*>(SSL_get_app_data(ssl)); }

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* length, SSL_SESSION** session) {
  const TlsSession::Impl& impl = impl_of(ssl);
  *session = session_of(ssl, impl.secret).release();
  *identity = impl.identity.data();
  *length = impl.identity.size();
  return *session != nullptr ? 1 : 0;
}

// One that is not known gets no other chance: there is no certificate.
int find_key(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
  *session = nullptr;
  const TlsSession::Impl& impl = impl_of(ssl);
  KeyId id{};
  if (length != sizeof(id) || !impl.find) return 1;
  std::memcpy(&id, identity, sizeof(id));
  const auto secret = impl.find(id);
  if (secret) *session = session_of(ssl, *secret).release();
  return 1;
}

}  // namespace

Result<std::unique_ptr<TlsSession::Impl>> TlsSession::Impl::make(SSL_CTX* context, int fd) {
  const Error none(ENOMEM, "no memory for TLS");
  if (context == nullptr) return none;
  auto made = std::make_unique<Impl>();
  made->ssl.reset(SSL_new(context));
  BIO* const bio = made->ssl ? BIO_new(socket_method()) : nullptr;
  if (bio == nullptr) return none;
  made->wire.fd = fd;
  BIO_set_data(bio, &made->wire);
  BIO_set_init(bio, 1);
  SSL_set_bio(made->ssl.get(), bio, bio);
  SSL_set_app_data(made->ssl.get(), made.get());
  return made;
}

// What an operation that has failed says of the peer.
Error TlsSession::Impl::error(int outcome) const {
  const int kind = SSL_get_error(ssl.get(), outcome);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return Error(EAGAIN, "nothing came");
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  if (kind != SSL_ERROR_SSL || ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return Error(ENOTCONN, "peer closed the connection");
  if (is_up) return Error(ENOTCONN, "what came was changed on its way");
  switch (ERR_GET_REASON(code)) {
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_CIPHER:
      return Error(EACCES, kOtherSecret);
    default:
      return Error(EPROTO, "the peer does not speak TLS as it should");
  }
}

// What tells the peer of it goes along with what is sent next: SSL_read() would have to send it, too, if there was no
// room for it.
void TlsSession::Impl::renew_key() {
  wire.holds = true;
  const bool renewed = SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 && SSL_do_handshake(ssl.get()) == 1;
  wire.holds = false;
  if (renewed) sent_bytes = 0;
}

// One, behind the first `skip` bytes of the first part. What lies in several places is put together first. 0: no room.
Result<size_t> TlsSession::Impl::send_record(std::span<const iovec> parts, size_t skip) {
  const auto* data = static_cast<const std::byte*>(parts.front().iov_base) + skip;
  size_t length = std::min(parts.front().iov_len - skip, kRecordBytes);
  if (length < kRecordBytes && parts.size() > 1) {
    std::memcpy(record.data(), data, length);
    for (const iovec& part : parts.subspan(1)) {
      const size_t here = std::min(part.iov_len, kRecordBytes - length);
      std::memcpy(record.data() + length, part.iov_base, here);
      length += here;
      if (length == kRecordBytes) break;
    }
    data = record.data();
  }
  size_t sent = 0;
  ERR_clear_error();
  const int outcome = length == 0 ? 1 : SSL_write_ex(ssl.get(), data, length, &sent);
  if (outcome != 1) {
    const Error failed = error(outcome);
    return failed.is(EAGAIN) ? Result<size_t>(size_t{0}) : failed;
  }
  sent_bytes += sent;
  if (sent_bytes >= rekey_bytes) renew_key();
  return sent;
}

TlsSession::TlsSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TlsSession::~TlsSession() = default;

Result<std::unique_ptr<TlsSession>> TlsSession::client(int fd, const Secret& secret, uint64_t rekey_bytes) {
  auto impl = TRY(Impl::make(client_context(), fd));
  impl->rekey_bytes = rekey_bytes;
  impl->secret = secret;
  impl->identity = identity_of(key_id_of(secret));
  SSL_set_connect_state(impl->ssl.get());
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(impl)));
}

Result<std::unique_ptr<TlsSession>> TlsSession::server(int fd, FindSecret find) {
  auto impl = TRY(Impl::make(server_context(), fd));
  impl->find = std::move(find);
  SSL_set_accept_state(impl->ssl.get());
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(impl)));
}

Result<TlsSession::Step> TlsSession::shake_hands() {
  MutexLock lock(mutex_);
  SSL* const ssl = impl_->ssl.get();
  ERR_clear_error();
  const int outcome = SSL_do_handshake(ssl);
  if (outcome == 1) {
    if (SSL_session_reused(ssl) != 1) return Error(EACCES, kOtherSecret);  // not by the secret
    impl_->is_up = true;
    impl_->secret = {};
    impl_->find = nullptr;
    return Step::kDone;
  }
  const Error error = impl_->error(outcome);
  if (!error.is(EAGAIN)) return error;
  return SSL_want_write(ssl) ? Step::kWrites : Step::kReads;
}

Result<size_t> TlsSession::receive(std::span<const iovec> parts) {
  MutexLock lock(mutex_);
  size_t received = 0;
  for (const iovec& part : parts) {
    for (size_t filled = 0; filled < part.iov_len;) {
      size_t got = 0;
      ERR_clear_error();
      const int outcome =
          SSL_read_ex(impl_->ssl.get(), static_cast<std::byte*>(part.iov_base) + filled, part.iov_len - filled, &got);
      if (outcome != 1 && received > 0) return received;  // an error comes again
      if (outcome != 1 && SSL_want_write(impl_->ssl.get()))
        return Error(ENOTCONN, "the peer asks for what brickfs does not");  // and takes no answer
      if (outcome != 1) return impl_->error(outcome);
      filled += got;
      received += got;
      if (received >= kAtOnce) return received;
    }
  }
  return received;
}

Result<size_t> TlsSession::send(std::span<const iovec> parts) {
  MutexLock lock(mutex_);
  size_t total = 0;
  size_t skip = 0;  // of the first part
  while (total < kAtOnce) {
    while (!parts.empty() && parts.front().iov_len <= skip) {
      skip -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (parts.empty()) break;
    const auto sent = impl_->send_record(parts, skip);
    if (!sent.ok() && total == 0) return sent;
    if (!sent.ok() || *sent == 0) break;  // an error comes again
    total += *sent;
    skip += *sent;
  }
  return total;
}

bool TlsSession::holds_some() const {
  MutexLock lock(mutex_);
  return SSL_pending(impl_->ssl.get()) > 0;
}

}  // namespace brickfs::tcp
