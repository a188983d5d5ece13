// SPDX-License-Identifier: Apache-2.0
//
// The command line of the load generator.

#include "load.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { outstandingMax = 1024, appsMax = 64 };

/// Numbers with commas between them.
static void parseWindows(struct options *options, char *text) {
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
        int window = atoi(part);
        if (window < 1 || window > outstandingMax) fail("1 to %d outstanding", outstandingMax);
        if (options->windowCount == windowsMax) fail("at most %d windows", windowsMax);
        options->windows[options->windowCount++] = (uint32_t)window;
    }
}

void parseOptions(struct options *options, int argc, char **argv) {
    *options = (struct options){
        .protocol = "martlet", .host = "127.0.0.1", .port = 5228, .subscribers = 1000,
        .payloadBytes = 128, .warmupSeconds = 0.5, .seconds = 2,
        .batch = 1, .project = "bench", .topic = "bench", .firstSource = 0};
    static const struct option names[] = {
        {"protocol", 1, 0, 'p'}, {"host", 1, 0, 'h'}, {"port", 1, 0, 'P'},
        {"subscribers", 1, 0, 'n'}, {"payload", 1, 0, 'b'}, {"outstanding", 1, 0, 'w'},
        {"warmup", 1, 0, 'u'}, {"seconds", 1, 0, 's'}, {"rate", 1, 0, 'r'},
        {"server", 1, 0, 'S'}, {"admin-key", 1, 0, 'k'}, {"idle", 0, 0, 'i'},
        {"first-source", 1, 0, 'f'}, {"topic", 1, 0, 't'}, {"save", 1, 0, 'v'},
        {"load", 1, 0, 'l'}, {"offline", 1, 0, 'o'}, {"drain", 1, 0, 'd'},
        {"direct", 0, 0, 'D'}, {"subscribe", 1, 0, 'B'}, {"batch", 1, 0, 'c'},
        {"from-others", 0, 0, 'O'}, {"acknowledge", 1, 0, 'a'}, {"apps", 1, 0, 'A'},
        {"beside", 1, 0, 'e'}, {"project", 1, 0, 'j'}, {"tls", 0, 0, 'T'},
        {"handshakes", 1, 0, 'H'}, {"resume", 0, 0, 'R'}, {0, 0, 0, 0}};
    int name;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
            case 'p': options->protocol = optarg; break;
            case 'h': options->host = optarg; break;
            case 'P': options->port = (uint16_t)atoi(optarg); break;
            case 'n': options->subscribers = (uint32_t)atoi(optarg); break;
            case 'b': options->payloadBytes = (uint32_t)atoi(optarg); break;
            case 'w': parseWindows(options, optarg); break;
            case 'u': options->warmupSeconds = atof(optarg); break;
            case 's': options->seconds = atof(optarg); break;
            case 'r': options->rate = atof(optarg); break;
            case 'S': options->server = atoi(optarg); break;
            case 'k': options->administratorKey = optarg; break;
            case 'i': options->idle = true; break;
            case 'f': options->firstSource = (uint32_t)atoi(optarg); break;
            case 't': options->topic = optarg; break;
            case 'v': options->saveTo = optarg; break;
            case 'l': options->loadFrom = optarg; break;
            case 'o': options->offlineMessages = (uint32_t)atoi(optarg); break;
            case 'd': options->waitingMessages = (uint32_t)atoi(optarg); break;
            case 'D': options->isDirect = true; break;
            case 'B': options->subscribeRequests = (uint32_t)atoi(optarg); break;
            case 'c': options->batch = (uint32_t)atoi(optarg); break;
            case 'O': options->isFromOthers = true; break;
            case 'a': options->acknowledgedTogether = (uint32_t)atoi(optarg); break;
            case 'A': options->appsEach = (uint32_t)atoi(optarg); break;
            case 'e': options->besideDevices = optarg; break;
            case 'j': options->project = optarg; break;
            case 'T': options->isTLS = true; break;
            case 'H': options->handshakes = (uint32_t)atoi(optarg); break;
            case 'R': options->isResuming = true; break;
            default: exit(2);
        }
    }
    if (options->payloadBytes < stampBytes || options->payloadBytes > 3900)
        fail("a payload has %d to 3900 bytes", stampBytes);
    // At a rate messages wait for nothing but their time.
    if (!options->windowCount)
        options->windows[options->windowCount++] = options->rate > 0 ? outstandingMax : 1;
    options->outstanding = options->windows[0];
    if (options->appsEach > appsMax) fail("1 to %d apps on a connection", appsMax);
    if (options->isFromOthers && !options->idle) fail("--from-others needs --idle");
    if (options->subscribers < 1) fail("at least one subscriber");
}
