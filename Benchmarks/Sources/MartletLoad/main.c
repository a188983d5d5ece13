// SPDX-License-Identifier: Apache-2.0
//
// The load generator: N subscribers and one publisher on one thread, so that publish and delivery
// are read from one clock and one core is all it needs. It keeps W messages outstanding, or publishes
// at a fixed rate. A message is done when all subscribers have it (and its acceptance has come, where
// the protocol has one). Every delivery is checked: each subscriber must see 0, 1, 2, … without gap
// or repetition. A measurement begins and ends drained, so that CPU time and deliveries belong to
// each other exactly: where deliveries are acknowledged, that includes the acknowledgements.
//
// Prints a line of JSON for each measurement. Source addresses rotate through 127.0.x.y, ports chosen
// at connect (IP_BIND_ADDRESS_NO_PORT), which the kernel does several times faster.

#include "load.h"

#include "histogram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

enum {
    eventsMax = 512,
    // 64 apps say HELLO at once, each with a token and a key.
    greetingBytesMax = 1 << 14,
    // Connections that share one source address.
    connectionsPerSource = 4000,
    // Without any delivery for so long the run has failed.
    stallSeconds = 15,
};

/// A message that is not done.
struct outstanding {
    uint64_t published;
    uint32_t remaining;
};

static struct options options;
const struct protocol *protocol;
struct connection *connections;  // The last one is the publisher.
static struct connection *publisher;
static int poller;
static uint8_t *reading;
static uint32_t openCount, greetingCount;

// Messages.
static struct outstanding *ring;
static uint64_t ringMask, publishedCount, doneCount, acceptedCount, deliveredCount;
static uint8_t *publishing;
static bool isMeasuring;
// At a rate: when the first message was due, and the nanoseconds from one to the next.
static double firstDue, dueInterval;
static uint64_t firstSequence;
static struct histogram firstTimes, allTimes, lastTimes;
// Where deliveries are only counted: when the first and the last came.
static uint64_t firstDelivery, lastDelivery;
static uint64_t answeredCount;

// MARK: Connecting

static void startConnecting(uint32_t index) {
    struct connection *connection = connections + index;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) fail("socket %u: %s", index, strerror(errno));
    int one = 1;
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    // Closing resets, so that thousands of sockets do not linger between runs.
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    uint32_t source = index / connectionsPerSource;
    struct sockaddr_in from = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(
        0x7F000001u + ((options.firstSource + source / 200) << 8) + source % 200);
    if (bind(descriptor, (struct sockaddr *)&from, sizeof from) != 0)
        fail("bind: %s", strerror(errno));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(options.port)};
    inet_pton(AF_INET, options.host, &to.sin_addr);
    if (connect(descriptor, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        fail("connect %u: %s", index, strerror(errno));
    connection->descriptor = descriptor;
    connection->phase = phaseConnecting;
    connection->isPublisher = connection == publisher;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u32 = index};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0)
        fail("epoll: %s", strerror(errno));
    greetingCount++;
}

static void connected(struct connection *connection) {
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(connection->descriptor, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error) fail("connect: %s", strerror(error));
    secure(connection->descriptor);
    connection->phase = phaseGreeting;
    uint8_t greeting[greetingBytesMax];
    size_t count = protocol->greet(&options, connection, greeting);
    if (count > 0) {
        writeAll(connection->descriptor, greeting, count);
    } else {
        connection->phase = phaseOpen;
        openCount++;
        greetingCount--;
    }
    // From now on only bytes are of interest.
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLET, .data.u32 = (uint32_t)(connection - connections)};
    epoll_ctl(poller, EPOLL_CTL_MOD, connection->descriptor, &event);
}

// MARK: Messages

static void encodeHexadecimal(uint8_t *out, uint64_t value) {
    for (int digit = 15; digit >= 0; digit--, value >>= 4)
        out[digit] = (uint8_t)"0123456789abcdef"[value & 15];
}

static uint64_t decodeHexadecimal(const uint8_t *at) {
    // Digits become nibbles, then pairs, quadruples, … are put together, eight digits at a time.
    uint64_t result = 0;
    for (int half = 0; half < 2; half++) {
        uint64_t word;
        memcpy(&word, at + 8 * half, 8);
        word = __builtin_bswap64(word);
        word = (word & 0x0F0F0F0F0F0F0F0Full) + 9 * (word >> 6 & 0x0101010101010101ull);
        word = (word | word >> 4) & 0x00FF00FF00FF00FFull;
        word = (word | word >> 8) & 0x0000FFFF0000FFFFull;
        result = result << 32 | ((word | word >> 16) & 0xFFFFFFFFull);
    }
    return result;
}

static void messageDone(uint64_t sequence, uint64_t now) {
    doneCount++;
    if (isMeasuring) histogramAdd(&lastTimes, now - ring[sequence & ringMask].published, 1);
}

/// Publishes what may be outstanding. At a rate a message counts from when it was due, however late
/// it leaves: a server that holds up the generator must not be asked less because of that.
static void publishUpTo(uint64_t limit, uint64_t now) {
    uint8_t *at = publishing;
    while (publishedCount < limit && publishedCount - doneCount < options.outstanding) {
        uint8_t *payload;
        struct outstanding *message = ring + (publishedCount & ringMask);
        message->published = options.rate > 0
            ? (uint64_t)(firstDue + dueInterval * (double)(publishedCount - firstSequence)) : now;
        message->remaining =
            (options.offlineMessages ? 0 : options.subscribers) + (protocol->isAccepted ? 1 : 0);
        size_t bytes = protocol->publish(&options, publishedCount, at, &payload);
        encodeHexadecimal(payload, publishedCount);
        encodeHexadecimal(payload + 16, now);
        memset(payload + stampBytes, 'x', options.payloadBytes - stampBytes);
        at += bytes;
        publishedCount++;
    }
    if (at > publishing) writeAll(publisher->descriptor, publishing, (size_t)(at - publishing));
}

static void take(struct connection *connection, const struct frame *frame, uint64_t now) {
    bool isOthers = options.isFromOthers;
    uint64_t sequence = isOthers ? frame->identity : decodeHexadecimal(frame->payload);
    if (isOthers ? sequence < connection->expected : sequence != connection->expected)
        fail(
            "subscriber %ld got message %llu instead of %llu", connection - connections,
            (unsigned long long)sequence, (unsigned long long)connection->expected);
    connection->expected = sequence + 1;
    if (options.waitingMessages || options.idle) {
        if (deliveredCount++ == 0) firstDelivery = now;
        lastDelivery = now;
        return;
    }
    struct outstanding *message = ring + (sequence & ringMask);
    deliveredCount++;
    if (isMeasuring) {
        uint64_t time = now - message->published;
        if (message->remaining >= options.subscribers &&
            (!protocol->isAccepted || message->remaining > options.subscribers ||
             acceptedCount > sequence))
            histogramAdd(&firstTimes, time, 1);
        histogramAdd(&allTimes, time, 1);
    }
    if (--message->remaining == 0) messageDone(sequence, now);
}

// MARK: Reading

static size_t parseAll(
    struct connection *connection, const uint8_t *bytes, size_t count, uint64_t now) {
    static uint8_t acknowledgements[1 << 17];
    size_t at = 0, acknowledging = 0;
    uint64_t through = 0;
    uint32_t taken = 0;
    for (;;) {
        struct frame frame = {0};
        enum found found =
            protocol->parse(&options, connection, bytes + at, count - at, &frame);
        if (found == foundNothing) break;
        at += frame.bytes;
        if (found == foundDelivery) {
            if (connection->isPublisher || connection->phase != phaseOpen)
                fail("a message where none was expected");
            take(connection, &frame, now);
            through = frame.identity;
            taken++;
            if (protocol->acknowledgesEach) {
                acknowledging +=
                    protocol->acknowledge(frame.identity, acknowledgements + acknowledging);
                if (acknowledging > sizeof acknowledgements - 64) {
                    writeAll(connection->descriptor, acknowledgements, acknowledging);
                    acknowledging = 0;
                }
            }
        } else if (found == foundOpen) {
            if (connection->phase != phaseOpen) {
                connection->phase = phaseOpen;
                openCount++;
                greetingCount--;
            }
        } else if (found == foundAccepted) {
            // Answers come in the order of the requests.
            struct outstanding *message = ring + (acceptedCount & ringMask);
            if (--message->remaining == 0) messageDone(acceptedCount, now);
            acceptedCount++;
        } else if (found == foundAnswer) {
            answeredCount++;
        } else if (found == foundFault) {
            fail("%s", frame.fault);
        }
    }
    if (protocol->acknowledgedTogether && taken)
        acknowledgeLater(connection, taken, through, now);
    if (acknowledging) writeAll(connection->descriptor, acknowledgements, acknowledging);
    return at;
}

static void received(struct connection *connection) {
    for (;;) {
        ssize_t got = receiveSome(
            connection->descriptor, reading + carryBytesMax, readBytes);
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) fail("the server closed a connection: %s", got ? strerror(errno) : "end");
        uint8_t *start = reading + carryBytesMax - connection->carried;
        if (connection->carried) memcpy(start, connection->carry, connection->carried);
        size_t count = (size_t)got + connection->carried;
        size_t used = parseAll(connection, start, count, nowNanoseconds());
        connection->carried = (uint32_t)(count - used);
        if (connection->carried > 0) {
            if (connection->carried > carryBytesMax) fail("a frame too long");
            if (!connection->carry) connection->carry = malloc(carryBytesMax);
            memcpy(connection->carry, start + used, connection->carried);
        }
        // A short read of an edge-triggered socket has emptied it.
        if (got < readBytes && !isSecure(connection->descriptor)) return;
    }
}

// MARK: Turns

static void turn(int timeoutMilliseconds) {
    static struct epoll_event events[eventsMax];
    if (timeoutMilliseconds != 0) timeoutMilliseconds = boundByDue(timeoutMilliseconds);
    int count = epoll_wait(poller, events, eventsMax, timeoutMilliseconds);
    for (int index = 0; index < count; index++) {
        if (events[index].data.u32 == besideNumber) {
            handleBeside();
            continue;
        }
        struct connection *connection = connections + events[index].data.u32;
        if (connection->phase == phaseConnecting) {
            if (events[index].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) connected(connection);
            continue;
        }
        received(connection);
    }
    if (isAnythingDue()) acknowledgeDue(nowNanoseconds());
}

/// Asks on some connections and waits until all have answered: the server has then taken everything
/// that was said on them.
static void confirm(uint32_t first, uint32_t end) {
    uint64_t began = nowNanoseconds(), wanted = answeredCount + (end - first);
    uint8_t frame[64];
    for (uint32_t index = first; index < end; index++) {
        writeAll(connections[index].descriptor, frame, protocol->ask(frame));
        if (index % eventsMax == 0) turn(0);
    }
    while (answeredCount < wanted) {
        turn(1000);
        if (nowNanoseconds() - began > stallSeconds * 1000000000ull)
            fail("%llu connections did not answer", (unsigned long long)(wanted - answeredCount));
    }
}

/// Publishes for some seconds, or what is due in them, then waits until every message is done and
/// acknowledged. The publisher is asked last: the server reads what came before first, and to ask
/// everybody would cost as much as the acknowledgements.
static double run(double seconds) {
    uint64_t began = nowNanoseconds(), now = began, progress = began, delivered = deliveredCount;
    uint64_t end = began + (uint64_t)(seconds * 1e9);
    firstSequence = publishedCount;
    firstDue = (double)began;
    dueInterval = options.rate > 0 ? 1e9 / options.rate : 0;
    for (;;) {
        now = nowNanoseconds();
        uint64_t limit = now < end ? UINT64_MAX : publishedCount;
        if (options.rate > 0)
            limit = firstSequence + 1 +
                (uint64_t)((double)((now < end ? now : end) - began) / dueInterval);
        publishUpTo(limit, now);
        if (now >= end && doneCount >= limit) break;
        turn(options.rate > 0 ? 0 : 1000);
        if (deliveredCount != delivered) {
            delivered = deliveredCount;
            progress = now;
        } else if (now - progress > stallSeconds * 1000000000ull) {
            uint32_t behind = 0;
            for (uint32_t index = 0; index < options.subscribers; index++)
                if (connections[index].expected != publishedCount) behind++;
            fail(
                "nothing delivered for %d s: %llu published, %llu accepted, %u subscribers lack "
                "messages", stallSeconds, (unsigned long long)publishedCount,
                (unsigned long long)acceptedCount, behind);
        }
    }
    if (protocol->acknowledgedTogether) {
        acknowledgeDue(UINT64_MAX);
        confirm(options.subscribers, options.subscribers + 1);
        now = nowNanoseconds();
    }
    return (double)(now - began) / 1e9;
}

/// Publishes to subscribers that are not there.
static void sendOffline(void) {
    startConnecting(options.subscribers);
    while (openCount < 1) turn(1000);
    uint64_t written = processBytesWritten(options.server);
    uint64_t server = processNanoseconds(options.server), began = nowNanoseconds();
    isMeasuring = true;
    while (doneCount < options.offlineMessages) {
        publishUpTo(options.offlineMessages, nowNanoseconds());
        turn(1000);
    }
    double seconds = (double)(nowNanoseconds() - began) / 1e9;
    printf(
        "{\"offline\":%u,\"subscribers\":%u,\"outstanding\":%u,\"messagesPerSecond\":%.1f,"
        "\"serverMicroseconds\":%.1f,\"acceptedMilliseconds\":%.3f,"
        "\"acceptedP99Milliseconds\":%.3f,\"bytesWritten\":%llu,\"published\":%llu}\n",
        options.offlineMessages,
        options.subscribers, options.outstanding, options.offlineMessages / seconds,
        (double)(processNanoseconds(options.server) - server) / 1e3 / options.offlineMessages,
        (double)histogramQuantile(&lastTimes, 0.5) / 1e6,
        (double)histogramQuantile(&lastTimes, 0.99) / 1e6,
        (unsigned long long)(processBytesWritten(options.server) - written),
        (unsigned long long)began);
}

/// Takes what comes until standard input ends, and says when it came. The clock is the system's, so
/// several processes can be compared.
static void stayIdle(void) {
    struct pollfd waiting[] = {{.fd = 0, .events = POLLIN}, {.fd = poller, .events = POLLIN}};
    char byte;
    for (;;) {
        poll(waiting, 2, boundByDue(-1));
        if (waiting[1].revents || isAnythingDue()) turn(0);
        if (waiting[0].revents && read(0, &byte, 1) <= 0) break;
    }
    printf(
        "{\"delivered\":%llu,\"firstDelivery\":%llu,\"lastDelivery\":%llu}\n",
        (unsigned long long)deliveredCount, (unsigned long long)firstDelivery,
        (unsigned long long)lastDelivery);
}

/// Connects everybody, who then takes what waited.
static void drain(void) {
    uint64_t server = processNanoseconds(options.server), began = nowNanoseconds();
    uint64_t wanted = (uint64_t)options.subscribers * options.waitingMessages;
    uint32_t started = 0;
    uint64_t connectedAt = 0;
    while (deliveredCount < wanted) {
        while (started < options.subscribers && greetingCount < protocol->greetingsMax)
            startConnecting(started++);
        turn(1000);
        uint64_t now = nowNanoseconds();
        if (!connectedAt && openCount == options.subscribers) connectedAt = now;
        if (now - began > 120000000000ull)
            fail("%llu of %llu messages after 120 s", (unsigned long long)deliveredCount,
                 (unsigned long long)wanted);
    }
    double seconds = (double)(nowNanoseconds() - began) / 1e9;
    acknowledgeDue(UINT64_MAX);
    uint64_t serverUsed = processNanoseconds(options.server) - server;
    if (protocol->acknowledgedTogether) confirm(0, options.subscribers);
    printf(
        "{\"drained\":%llu,\"subscribers\":%u,\"seconds\":%.3f,\"connectSeconds\":%.3f,"
        "\"deliveriesPerSecond\":%.0f,\"serverNanoseconds\":%.1f,"
        "\"firstDelivery\":%llu}\n",
        (unsigned long long)wanted, options.subscribers, seconds,
        (double)(connectedAt - began) / 1e9, (double)wanted / seconds,
        (double)serverUsed / (double)wanted, (unsigned long long)firstDelivery);
}

static void connectAll(void) {
    uint32_t total = options.subscribers + 1, started = 0;
    uint64_t began = nowNanoseconds();
    while (openCount < total) {
        // The publisher comes last: by then everybody is there.
        uint32_t ready = started < options.subscribers || openCount == options.subscribers
            ? total : options.subscribers;
        if (ready == total && started < options.subscribers) ready = options.subscribers;
        while (started < ready && greetingCount < protocol->greetingsMax)
            startConnecting(started++);
        turn(1000);
        if (nowNanoseconds() - began > 120000000000ull)
            fail("only %u of %u connections open after 120 s", openCount, total);
    }
    fprintf(
        stderr, "bench-load: %u connections in %.1f ms\n", total,
        (double)(nowNanoseconds() - began) / 1e6);
}

static double microseconds(const struct histogram *times, double quantile) {
    return (double)histogramQuantile(times, quantile) / 1e3;
}

/// One measurement after a warm-up, and its line of JSON.
static void measure(double idleBytes) {
    run(options.warmupSeconds);
    histogramClear(&firstTimes);
    histogramClear(&allTimes);
    histogramClear(&lastTimes);
    isMeasuring = true;
    uint64_t serverBegan = processNanoseconds(options.server), ownBegan = ownNanoseconds();
    uint64_t writtenBefore = processBytesWritten(options.server);
    uint64_t deliveredBefore = deliveredCount, messagesBefore = doneCount;
    uint32_t changesBefore = besideAnswered();
    double seconds = run(options.seconds);
    isMeasuring = false;
    uint64_t serverUsed = processNanoseconds(options.server) - serverBegan;
    uint64_t ownUsed = ownNanoseconds() - ownBegan;
    double deliveries = (double)(deliveredCount - deliveredBefore);
    double messages = (double)(doneCount - messagesBefore);
    uint64_t written = processBytesWritten(options.server) - writtenBefore;
    struct memory after = processMemory(options.server);
    // An acknowledgement that the server refuses ends its connection, and with it this process.
    if (protocol->acknowledgedTogether) confirm(0, options.subscribers);

    printf(
        "{\"protocol\":\"%s\",\"subscribers\":%u,\"payload\":%u,\"outstanding\":%u,"
        "\"rate\":%.0f,\"seconds\":%.3f,\"messages\":%.0f,\"deliveries\":%.0f,"
        "\"deliveriesPerSecond\":%.0f,\"serverNanoseconds\":%.1f,\"generatorNanoseconds\":%.1f,"
        "\"serverLoad\":%.3f,\"generatorLoad\":%.3f,\"first\":%.1f,\"median\":%.1f,\"p99\":%.1f,"
        "\"p999\":%.1f,\"last\":%.1f,\"lastP99\":%.1f,\"bytesEach\":%.1f,"
        "\"changesPerSecond\":%.1f,\"idleBytes\":%.0f,\"serverAnonymousBytes\":%llu}\n",
        protocol->name, options.subscribers, options.payloadBytes, options.outstanding,
        options.rate, seconds, messages, deliveries, deliveries / seconds,
        (double)serverUsed / deliveries, (double)ownUsed / deliveries,
        (double)serverUsed / 1e9 / seconds, (double)ownUsed / 1e9 / seconds,
        microseconds(&firstTimes, 0.5), microseconds(&allTimes, 0.5),
        microseconds(&allTimes, 0.99), microseconds(&allTimes, 0.999),
        microseconds(&lastTimes, 0.5), microseconds(&lastTimes, 0.99),
        (double)written / messages, (besideAnswered() - changesBefore) / seconds, idleBytes,
        (unsigned long long)after.anonymous);
    fflush(stdout);
}

int main(int argc, char **argv) {
    // A server that hangs up is told by the failed write; OpenSSL writes without MSG_NOSIGNAL.
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && !strcmp(argv[1], "stress")) return stress(argc - 2, argv + 2);
    parseOptions(&options, argc, argv);
    protocol = findProtocol(options.protocol);
    acknowledgeAfter = options.acknowledgedTogether ? options.acknowledgedTogether
                                                    : protocol->acknowledgedTogether;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    connections = calloc(options.subscribers + 1, sizeof *connections);
    publisher = connections + options.subscribers;
    reading = malloc(carryBytesMax + readBytes);
    uint32_t outstandingMost = 0;
    for (uint32_t index = 0; index < options.windowCount; index++)
        if (options.windows[index] > outstandingMost) outstandingMost = options.windows[index];
    publishing = malloc((size_t)outstandingMost * (options.payloadBytes + 256));
    ringMask = 1;
    while (ringMask < outstandingMost) ringMask *= 2;
    ring = calloc(ringMask, sizeof *ring);
    ringMask--;
    poller = epoll_create1(EPOLL_CLOEXEC);

    if (options.isTLS) beginSecure();
    if (options.handshakes) {
        measureHandshakes(&options);
        return 0;
    }
    if (protocol->begin) protocol->begin(&options);
    if (options.subscribeRequests) {
        measureSubscriptions(&options, protocol);
        return 0;
    }
    if (options.offlineMessages) {
        sendOffline();
        return 0;
    }
    if (options.waitingMessages) {
        drain();
        return 0;
    }
    struct memory before = processMemory(options.server);
    connectAll();
    if (protocol->prepare) protocol->prepare(&options, publisher->descriptor);
    usleep(200000);
    struct memory idle = processMemory(options.server);
    double connectionCount = options.subscribers + 1;
    if (options.idle) {
        printf(
            "{\"protocol\":\"%s\",\"subscribers\":%u,\"serverAnonymousBytes\":%llu,"
            "\"idleBytes\":%.0f}\n", protocol->name, options.subscribers,
            (unsigned long long)idle.anonymous,
            ((double)idle.anonymous - (double)before.anonymous) / connectionCount);
        fflush(stdout);
        stayIdle();
        return 0;
    }

    if (protocol->isDirect && options.subscribers > 1)
        fail("live messages to a token each need one subscriber");
    if (options.besideDevices) openBeside(&options, poller);
    double idleBytes = ((double)idle.anonymous - (double)before.anonymous) / connectionCount;
    for (uint32_t index = 0; index < options.windowCount; index++) {
        options.outstanding = options.windows[index];
        measure(idleBytes);
    }
    if (options.besideDevices) {
        setBeside(true);
        measure(idleBytes);
    }
    return 0;
}
