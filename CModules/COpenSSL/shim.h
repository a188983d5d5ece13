// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL 3 for Swift, with the calls that OpenSSL defines as macros or with a variable number of arguments, which
// Swift's importer cannot see. The header contains no logic.
#pragma once
#include <features.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/core_names.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline long martlet_ssl_ctx_require_tls13(SSL_CTX *context) {
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION)
        && SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
}

static inline long martlet_ssl_ctx_set_groups(SSL_CTX *context, const char *groups) {
    return SSL_CTX_set1_groups_list(context, groups);
}

static inline void martlet_ssl_ctx_disable_session_cache(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

static inline void martlet_ssl_ctx_set_max_cert_list(SSL_CTX *context, long bytes) {
    SSL_CTX_set_max_cert_list(context, bytes);
}

static inline long martlet_ssl_ctx_add_chain_cert(SSL_CTX *context, X509 *certificate) {
    return SSL_CTX_add1_chain_cert(context, certificate);
}

static inline int martlet_ssl_ctx_set_app_data(SSL_CTX *context, void *data) {
    return SSL_CTX_set_app_data(context, data);
}

static inline void *martlet_ssl_ctx_get_app_data(const SSL_CTX *context) {
    return SSL_CTX_get_app_data(context);
}

static inline int martlet_ssl_set_app_data(SSL *ssl, void *data) {
    return SSL_set_app_data(ssl, data);
}

static inline void *martlet_ssl_get_app_data(const SSL *ssl) {
    return SSL_get_app_data(ssl);
}

static inline long martlet_bio_pending(BIO *bio) {
    return BIO_pending(bio);
}

static inline EVP_PKEY *martlet_make_p256_key(void) {
    return EVP_EC_gen("P-256");
}

static inline EVP_PKEY *martlet_make_rsa_key(unsigned int bits) {
    return EVP_RSA_gen(bits);
}

// The server's order of ciphers decides, except that a client without AES in hardware prefers ChaCha20.
static inline uint64_t martlet_ssl_options(void) {
    return SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_RENEGOTIATION
        | SSL_OP_NO_COMPRESSION;
}

static inline int martlet_utf8_text(void) {
    return MBSTRING_UTF8;
}

// Parameters keep pointers to their names, which a Swift string cannot give.
static inline int martlet_mac_set_sha256_key(EVP_MAC_CTX *mac, void *key, size_t bytes) {
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key, bytes),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, parameters);
}
