// SPDX-License-Identifier: Apache-2.0
//
// The command line of the load generator.

#include "load.h"

#include <getopt.h>
#include <stdlib.h>

void parseOptions(struct options *options, int argc, char **argv) {
    *options = (struct options){
        .protocol = "martlet", .host = "127.0.0.1", .port = 5228, .subscribers = 1000,
        .payloadBytes = 128, .outstanding = 1, .warmupSeconds = 0.5, .seconds = 2,
        .batch = 1, .project = "bench", .topic = "bench", .firstSource = 0};
    static const struct option names[] = {
        {"protocol", 1, 0, 'p'}, {"host", 1, 0, 'h'}, {"port", 1, 0, 'P'},
        {"subscribers", 1, 0, 'n'}, {"payload", 1, 0, 'b'}, {"outstanding", 1, 0, 'w'},
        {"warmup", 1, 0, 'u'}, {"seconds", 1, 0, 's'}, {"rate", 1, 0, 'r'},
        {"server", 1, 0, 'S'}, {"admin-key", 1, 0, 'k'}, {"idle", 0, 0, 'i'},
        {"first-source", 1, 0, 'f'}, {"topic", 1, 0, 't'}, {"save", 1, 0, 'v'},
        {"load", 1, 0, 'l'}, {"offline", 1, 0, 'o'}, {"drain", 1, 0, 'd'},
        {"direct", 0, 0, 'D'}, {"subscribe", 1, 0, 'B'}, {"batch", 1, 0, 'c'},
        {"from-others", 0, 0, 'O'}, {0, 0, 0, 0}};
    int name;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
            case 'p': options->protocol = optarg; break;
            case 'h': options->host = optarg; break;
            case 'P': options->port = (uint16_t)atoi(optarg); break;
            case 'n': options->subscribers = (uint32_t)atoi(optarg); break;
            case 'b': options->payloadBytes = (uint32_t)atoi(optarg); break;
            case 'w': options->outstanding = (uint32_t)atoi(optarg); break;
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
            default: exit(2);
        }
    }
    if (options->payloadBytes < stampBytes || options->payloadBytes > 3900)
        fail("a payload has %d to 3900 bytes", stampBytes);
    if (options->outstanding < 1 || options->outstanding > 1024) fail("1 to 1024 outstanding");
    if (options->isFromOthers && !options->idle) fail("--from-others needs --idle");
    if (options->subscribers < 1) fail("at least one subscriber");
}
