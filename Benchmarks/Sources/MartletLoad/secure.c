// SPDX-License-Identifier: Apache-2.0
//
// TLS of the generator, by OpenSSL's own client: a handshake with ordinary calls when a connection begins, then
// reading and writing through the connection's object. And a measurement of handshakes alone, full or resumed.

#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SSL_CTX *context;
// Objects by descriptor; NULL: plain text.
static SSL **objects;
static int objectCount;

static void wait_for(int descriptor, short events) {
    struct pollfd one = {.fd = descriptor, .events = events};
    poll(&one, 1, -1);
}

static SSL *object(int descriptor) {
    return descriptor < objectCount ? objects[descriptor] : NULL;
}

void beginSecure(void) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    // The certificate was made for the run.
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    // An idle object keeps no buffers: ten thousand of them must fit.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
}

static void shakeHands(SSL *ssl, int descriptor) {
    int result;
    while ((result = SSL_connect(ssl)) != 1) {
        switch (SSL_get_error(ssl, result)) {
            case SSL_ERROR_WANT_READ: wait_for(descriptor, POLLIN); break;
            case SSL_ERROR_WANT_WRITE: wait_for(descriptor, POLLOUT); break;
            default: fail("handshake: %s", ERR_reason_error_string(ERR_get_error()));
        }
    }
}

void secure(int descriptor) {
    if (!context) return;
    if (descriptor >= objectCount) {
        int count = descriptor + 1024;
        objects = realloc(objects, (size_t)count * sizeof *objects);
        memset(objects + objectCount, 0, (size_t)(count - objectCount) * sizeof *objects);
        objectCount = count;
    }
    // The descriptor's earlier connection may have been closed.
    SSL_free(objects[descriptor]);
    SSL *ssl = objects[descriptor] = SSL_new(context);
    SSL_set_fd(ssl, descriptor);
    shakeHands(ssl, descriptor);
}

ssize_t receiveSome(int descriptor, void *bytes, size_t count) {
    SSL *ssl = object(descriptor);
    if (!ssl) return read(descriptor, bytes, count);
    // An object gives a record at a time.
    size_t total = 0;
    while (total < count) {
        size_t left = count - total;
        int got = SSL_read(ssl, (uint8_t *)bytes + total, left > 16384 ? 16384 : (int)left);
        if (got > 0) {
            total += (size_t)got;
            continue;
        }
        if (total > 0) break;
        if (SSL_get_error(ssl, got) != SSL_ERROR_WANT_READ) return 0;
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)total;
}

ssize_t sendSome(int descriptor, const void *bytes, size_t count) {
    SSL *ssl = object(descriptor);
    if (!ssl) return write(descriptor, bytes, count);
    int sent = SSL_write(ssl, bytes, count > 16384 ? 16384 : (int)count);
    if (sent > 0) return sent;
    int reason = SSL_get_error(ssl, sent);
    errno = reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return -1;
}

bool isSecure(int descriptor) { return object(descriptor) != NULL; }

/// Connects, ends the handshake and closes, one connection after the other.
void measureHandshakes(const struct options *options) {
    SSL_SESSION *session = NULL;
    uint64_t began = 0, busy = 0;
    uint32_t resumed = 0;
    // The first connection fetches the ticket and warms the server.
    for (uint32_t number = 0; number <= options->handshakes; number++) {
        if (number == 1) {
            began = nowNanoseconds();
            busy = processNanoseconds(options->server);
        }
        int descriptor = connectBlocking(options);
        SSL *ssl = SSL_new(context);
        SSL_set_fd(ssl, descriptor);
        if (session && options->isResuming) SSL_set_session(ssl, session);
        shakeHands(ssl, descriptor);
        if (number > 0 && SSL_session_reused(ssl)) resumed++;
        SSL_shutdown(ssl);
        // The server's close_notify comes behind its ticket.
        char byte;
        while (SSL_read(ssl, &byte, 1) > 0) {}
        SSL_SESSION_free(session);
        session = SSL_get1_session(ssl);
        SSL_free(ssl);
        close(descriptor);
    }
    double seconds = (double)(nowNanoseconds() - began) / 1e9;
    double microseconds =
        (double)(processNanoseconds(options->server) - busy) / 1e3 / options->handshakes;
    printf(
        "{\"handshakes\":%u,\"resumed\":%u,\"seconds\":%.3f,\"serverMicroseconds\":%.1f,"
        "\"perSecondAndCore\":%.0f}\n", options->handshakes, resumed, seconds, microseconds,
        1e6 / microseconds);
}
