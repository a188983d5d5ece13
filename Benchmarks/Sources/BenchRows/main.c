// SPDX-License-Identifier: Apache-2.0
//
// What a mailbox with one row per recipient costs in LMDB, as most brokers keep it: a key of
// instance and sequence, a value of 8 bytes, all of one message in one transaction with one fsync.
// Straight against the library, so that nothing else is in the figure.
//
//     bench-rows FOLDER RECIPIENTS EVERY      each EVERY-th instance is a recipient

#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "bench-rows: %s: %s\n", what, mdb_strerror(code));
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t bytesWritten(void) {
    char line[256];
    unsigned long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "write_bytes: %llu", &bytes);
    if (file) fclose(file);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fputs("usage: bench-rows FOLDER RECIPIENTS EVERY\n", stderr);
        return 2;
    }
    uint32_t recipients = (uint32_t)atoi(argv[2]), every = (uint32_t)atoi(argv[3]);
    MDB_env *environment;
    MDB_txn *transaction;
    MDB_dbi table;
    check(mdb_env_create(&environment), "create");
    check(mdb_env_set_mapsize(environment, (size_t)8 << 30), "map size");
    check(mdb_env_open(environment, argv[1], MDB_NORDAHEAD, 0600), "open");
    double milliseconds[5], bytes[5];
    for (int run = 0; run < 5; run++) {
        uint64_t began = now(), before = bytesWritten();
        check(mdb_txn_begin(environment, NULL, 0, &transaction), "begin");
        check(mdb_dbi_open(transaction, NULL, 0, &table), "table");
        for (uint32_t index = 0; index < recipients; index++) {
            uint8_t key[12];
            uint32_t instance = __builtin_bswap32(index * every);
            uint64_t sequence = __builtin_bswap64((uint64_t)run + 1), value = began;
            memcpy(key, &instance, 4);
            memcpy(key + 4, &sequence, 8);
            MDB_val keyValue = {sizeof key, key}, valueValue = {sizeof value, &value};
            check(mdb_put(transaction, table, &keyValue, &valueValue, 0), "put");
        }
        check(mdb_txn_commit(transaction), "commit");
        milliseconds[run] = (double)(now() - began) / 1e6;
        bytes[run] = (double)(bytesWritten() - before);
    }
    // The first message finds an empty table, which is the best case; the others are the rule.
    double time = 0, written = 0;
    for (int run = 1; run < 5; run++) time += milliseconds[run] / 4, written += bytes[run] / 4;
    printf(
        "{\"kind\":\"one row per recipient\",\"recipients\":%u,\"milliseconds\":%.1f,"
        "\"firstMilliseconds\":%.1f,\"nanosecondsPerRecipient\":%.1f,\"bytesPerRecipient\":%.1f}\n",
        recipients, time, milliseconds[0], time * 1e6 / recipients, written / recipients);
    mdb_env_close(environment);
    return 0;
}
