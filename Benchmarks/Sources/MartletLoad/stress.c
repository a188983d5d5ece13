// SPDX-License-Identifier: Apache-2.0
//
// The stress generator: `bench-load stress`. It holds the devices and senders of some projects, reads
// commands from standard input, one a line, and answers each with one line of JSON:
//
//     setup                    makes the projects, registers, subscribes and connects everything
//     pace RATE SECONDS        every project publishes so often, and all is waited for
//     burst COUNT              every project publishes so many at once, and all is waited for
//     flood topic|direct OUTSTANDING SECONDS      as fast as it goes; nothing is waited for
//     stop / read              a tenth of the devices stops reading, or reads again
//     away / storm             all devices go, or come, at once
//     settle SECONDS           waits until whoever is there and reads has everything
//     report                   what everybody got, in the end
//
// Several of them may work against one broker, so that one's flood does not hold up another's
// measuring. Rests on stress.h.

#include "stress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

struct fleet fleet;

enum {
    eventsMax = 512,
    tendMilliseconds = 50,
    settleSeconds = 60,
};

void turn(int timeoutMilliseconds) {
    static uint64_t tendAt;
    struct epoll_event events[eventsMax];
    int count = epoll_wait(fleet.poller, events, eventsMax, timeoutMilliseconds);
    for (int index = 0; index < count; index++) {
        uint32_t number = events[index].data.u32;
        if (number < fleet.deviceCount) handleDevice(number, events[index].events);
        else handleSender(number - fleet.deviceCount, events[index].events);
    }
    uint64_t now = nowNanoseconds();
    publishDue(now);
    if (now < tendAt) return;
    tendDevices(now);
    tendAt = now + tendMilliseconds * 1000000ull;
}

static double seconds(uint64_t nanoseconds) { return (double)nanoseconds / 1e9; }

/// Whether everybody who is there and reads has everything that was accepted.
static bool isSettled(void) {
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        const struct project *project = fleet.projects + number;
        if (project->left || project->askedCount) return false;
    }
    for (uint32_t index = 0; index < fleet.deviceCount; index++) {
        const struct device *device = fleet.devices + index;
        if (device->isStopped || !device->wantsConnection) continue;
        if (device->phase != deviceOpen || !isUpToDate(device)) return false;
    }
    return true;
}

static bool settle(double secondsMax) {
    uint64_t end = nowNanoseconds() + (uint64_t)(secondsMax * 1e9), lookAt = 0;
    while (nowNanoseconds() < end) {
        turn(5);
        // Looking at everybody costs as much as a turn.
        if (nowNanoseconds() < lookAt) continue;
        if (isSettled()) return true;
        lookAt = nowNanoseconds() + 10000000u;
    }
    return isSettled();
}

static void beginMeasuring(void) {
    histogramClear(&fleet.times);
    for (uint32_t number = 0; number < fleet.projectCount; number++)
        histogramClear(fleet.projects[number].times);
    fleet.measuredSince = nowNanoseconds();
}

static void tellTimes(bool isSettledNow, uint64_t began) {
    uint64_t worst = 0;
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        uint64_t p99 = histogramQuantile(fleet.projects[number].times, 0.99);
        if (p99 > worst) worst = p99;
    }
    printf(
        "{\"settled\":%s,\"seconds\":%.3f,\"deliveries\":%llu,\"median\":%.3f,\"p99\":%.3f,"
        "\"worst\":%.3f}\n",
        isSettledNow ? "true" : "false", seconds(nowNanoseconds() - began),
        (unsigned long long)fleet.times.total,
        (double)histogramQuantile(&fleet.times, 0.5) / 1e6,
        (double)histogramQuantile(&fleet.times, 0.99) / 1e6, (double)worst / 1e6);
}

// MARK: Commands

static void setUp(void) {
    uint64_t began = nowNanoseconds();
    makeProjects();
    for (uint32_t index = 0; index < fleet.deviceCount; index++)
        fleet.devices[index].wantsConnection = true;
    while (fleet.openCount < fleet.deviceCount) turn(10);
    subscribeAll();
    openSenders();
    printf("{\"devices\":%u,\"seconds\":%.3f}\n", fleet.deviceCount,
           seconds(nowNanoseconds() - began));
}

static void pace(double rate, double length) {
    beginMeasuring();
    uint64_t began = nowNanoseconds(), end = began + (uint64_t)(length * 1e9);
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        struct project *project = fleet.projects + number;
        project->isDirect = false;
        project->interval = (uint64_t)(1e9 / rate);
        project->nextAt = began + project->interval * number / fleet.projectCount;
    }
    while (nowNanoseconds() < end) turn(1);
    for (uint32_t number = 0; number < fleet.projectCount; number++)
        fleet.projects[number].interval = 0;
    tellTimes(settle(settleSeconds), began);
}

static void publishAll(uint64_t count, uint32_t outstanding, bool isDirect) {
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        struct project *project = fleet.projects + number;
        project->isDirect = isDirect;
        project->left = count;
        project->outstandingMax = outstanding;
    }
}

static void burst(uint64_t count) {
    beginMeasuring();
    uint64_t began = nowNanoseconds();
    publishAll(count, requestsMax, false);
    tellTimes(settle(settleSeconds), began);
}

static void flood(const char *kind, uint32_t outstanding, double length) {
    uint64_t delivered = fleet.delivered, accepted = 0, began = nowNanoseconds();
    for (uint32_t number = 0; number < fleet.projectCount; number++)
        accepted -= fleet.projects[number].published;
    beginMeasuring();
    publishAll(UINT64_MAX, outstanding, strcmp(kind, "direct") == 0);
    while (nowNanoseconds() < began + (uint64_t)(length * 1e9)) turn(1);
    publishAll(0, outstanding, false);
    double took = seconds(nowNanoseconds() - began);
    for (uint32_t number = 0; number < fleet.projectCount; number++)
        accepted += fleet.projects[number].published;
    printf(
        "{\"seconds\":%.3f,\"deliveries\":%llu,\"fanouts\":%llu,\"refused\":%llu}\n", took,
        (unsigned long long)(fleet.delivered - delivered), (unsigned long long)accepted,
        (unsigned long long)fleet.refused);
}

static void stop(bool isStopped) {
    for (uint32_t index = 7; index < fleet.deviceCount; index += 10)
        stopReading(fleet.devices + index, isStopped);
    printf("{}\n");
}

static void away(void) {
    for (uint32_t index = 0; index < fleet.deviceCount; index++) {
        fleet.devices[index].wantsConnection = false;
        closeDevice(fleet.devices + index);
    }
    printf("{}\n");
}

static void storm(void) {
    uint64_t began = nowNanoseconds(), reconnects = fleet.reconnects;
    for (uint32_t index = 0; index < fleet.deviceCount; index++) {
        fleet.devices[index].wantsConnection = true;
        fleet.devices[index].connectAt = 0;
    }
    double allOpen = 0;
    while (seconds(nowNanoseconds() - began) < settleSeconds) {
        turn(1);
        if (fleet.openCount < fleet.deviceCount) continue;
        allOpen = seconds(nowNanoseconds() - began);
        break;
    }
    bool isSettledNow = settle(settleSeconds);
    printf(
        "{\"settled\":%s,\"open\":%.3f,\"seconds\":%.3f,\"connects\":%llu,\"turnedAway\":%llu}\n",
        isSettledNow ? "true" : "false", allOpen, seconds(nowNanoseconds() - began),
        (unsigned long long)(fleet.reconnects - reconnects),
        (unsigned long long)fleet.turnedAway);
}

static void report(void) {
    uint64_t missing = 0, wrong = 0, accepted = 0;
    for (uint32_t number = 0; number < fleet.projectCount; number++)
        accepted += fleet.projects[number].accepted.count;
    for (uint32_t index = 0; index < fleet.deviceCount; index++) {
        const struct device *device = fleet.devices + index;
        const struct project *project = fleet.projects + device->project;
        const struct tally *direct = project->acceptedDirect + (index - project->firstDevice);
        if (!isUpToDate(device)) missing++;
        else if (device->got.sum != project->accepted.sum || device->gotDirect.sum != direct->sum)
            wrong++;
    }
    printf(
        "{\"devicesMissing\":%llu,\"devicesWrong\":%llu,\"accepted\":%llu,\"delivered\":%llu,"
        "\"repeated\":%llu,\"disconnected\":%llu,\"reconnects\":%llu,\"refused\":%llu}\n",
        (unsigned long long)missing, (unsigned long long)wrong, (unsigned long long)accepted,
        (unsigned long long)fleet.delivered, (unsigned long long)fleet.repeated,
        (unsigned long long)fleet.disconnected, (unsigned long long)fleet.reconnects,
        (unsigned long long)fleet.refused);
}

static void perform(char *line) {
    char kind[16];
    double first, second;
    unsigned outstanding;
    if (!strncmp(line, "setup", 5)) setUp();
    else if (sscanf(line, "pace %lf %lf", &first, &second) == 2) pace(first, second);
    else if (sscanf(line, "burst %lf", &first) == 1) burst((uint64_t)first);
    else if (sscanf(line, "flood %15s %u %lf", kind, &outstanding, &first) == 3)
        flood(kind, outstanding, first);
    else if (!strncmp(line, "stop", 4)) stop(true);
    else if (!strncmp(line, "read", 4)) stop(false);
    else if (!strncmp(line, "away", 4)) away();
    else if (!strncmp(line, "storm", 5)) storm();
    else if (sscanf(line, "settle %lf", &first) == 1)
        printf("{\"settled\":%s}\n", settle(first) ? "true" : "false");
    else if (!strncmp(line, "report", 6)) report();
    else fail("no command '%s'", line);
    fflush(stdout);
}

// MARK: Beginning

static void prepare(char **argv) {
    static char key[256];
    // PORT ADMIN-KEY-FILE NAME PROJECTS DEVICES-EACH PAYLOAD-BYTES FIRST-SOURCE
    fleet.load.host = "127.0.0.1";
    fleet.load.port = (uint16_t)atoi(argv[0]);
    fleet.projectCount = (uint32_t)atoi(argv[3]);
    fleet.devicesEach = (uint32_t)atoi(argv[4]);
    fleet.load.payloadBytes = (uint32_t)atoi(argv[5]);
    fleet.load.firstSource = (uint32_t)atoi(argv[6]);
    int file = open(argv[1], O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, key, sizeof key - 1);
    if (got <= 0) fail("no administrator key in '%s'", argv[1]);
    close(file);
    key[strcspn(key, "\r\n")] = 0;
    fleet.administratorKey = key;
    if (fleet.load.payloadBytes < devicePayloadMin) fail("a payload has 33 bytes at least");
    fleet.deviceCount = fleet.projectCount * fleet.devicesEach;
    fleet.comingMax = 4000;
    fleet.projects = calloc(fleet.projectCount, sizeof *fleet.projects);
    fleet.devices = calloc(fleet.deviceCount, sizeof *fleet.devices);
    fleet.reading = malloc(readBytes + carryBytesMax);
    fleet.poller = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        struct project *project = fleet.projects + number;
        snprintf(project->name, sizeof project->name, "%s-%u", argv[2], number);
        project->firstDevice = number * fleet.devicesEach;
        project->deviceCount = fleet.devicesEach;
        project->publishedDirect = calloc(fleet.devicesEach, sizeof(uint64_t));
        project->acceptedDirect = calloc(fleet.devicesEach, sizeof(struct tally));
        project->out = malloc(senderBytesMax);
        project->carry = malloc(carryBytesMax);
        project->times = calloc(1, sizeof *project->times);
        for (uint32_t index = 0; index < fleet.devicesEach; index++)
            fleet.devices[project->firstDevice + index].project = number;
    }
}

int stress(int argc, char **argv) {
    char line[256];
    struct rlimit limit;
    if (argc != 7)
        fail("stress PORT ADMIN-KEY-FILE NAME PROJECTS DEVICES-EACH PAYLOAD-BYTES FIRST-SOURCE");
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    prepare(argv);
    // Between two commands the connections are still tended.
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    size_t held = 0;
    while (true) {
        turn(5);
        ssize_t got = read(STDIN_FILENO, line + held, sizeof line - 1 - held);
        if (got == 0) return 0;
        if (got < 0) continue;
        held += (size_t)got;
        line[held] = 0;
        char *end = strchr(line, '\n');
        if (!end) continue;
        *end = 0;
        perform(line);
        held = 0;
    }
}
