/*
 * Load of Curator's lock recipe: create an ephemeral sequential znode, list the directory, delete the znode. Many
 * sessions in one thread, on ZooKeeper's single-threaded C client, so that the load itself costs little.
 *
 *     recipe_load CONNECT SESSIONS SECONDS WORKLOAD
 *
 * WORKLOAD: `own` (every session a lock of its own), `one` (all on one lock: each watches the one before it),
 * `reads` (get of one znode). Session i begins with address i of CONNECT. A quarter of the time before is warm-up.
 * Prints one line of JSON: cycles, seconds, and p50, p99 and maximum of a cycle in microseconds.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#define SESSIONS_MAX 1024
#define SAMPLES_MAX (1 << 24)
#define TIMEOUT_MS 30000
#define ROOT "/bench"
#define DIGITS 10

struct session {
    zhandle_t *handle;
    char directory[64], prefix[80], made[160];
    long long began;
    int running;
};

static struct session sessions[SESSIONS_MAX];
static int session_count;
static enum { OWN, ONE, READS } workload;
static unsigned *samples;
static size_t sample_count;
static int measuring, ending;

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void fail(const char *what, int code) {
    fprintf(stderr, "%s: %s\n", what, zerror(code));
    exit(1);
}

static void begin(struct session *session);

static void cycle_done(struct session *session) {
    if (measuring && sample_count < SAMPLES_MAX)
        samples[sample_count++] = (now_ns() - session->began) / 1000;
    session->running = 0;
    if (!ending)
        begin(session);
}

static void list(struct session *session);

static void on_deleted(int code, const void *context) {
    if (code != ZOK)
        fail("delete", code);
    cycle_done((struct session *)context);
}

static long sequence(const char *name) {
    size_t length = strlen(name);
    return length < DIGITS ? -1 : strtol(name + length - DIGITS, NULL, 10);
}

static void on_left(zhandle_t *handle, int type, int state, const char *path, void *context) {
    (void)handle, (void)state, (void)path;
    if (type != ZOO_SESSION_EVENT)
        list(context);
}

static void on_watched(int code, const char *value, int length, const struct Stat *stat, const void *context) {
    (void)value, (void)length, (void)stat;
    if (code == ZNONODE)
        list((struct session *)context);
    else if (code != ZOK)
        fail("watch", code);
}

static void on_listed(int code, const struct String_vector *children, const void *context) {
    struct session *session = (struct session *)context;
    if (code != ZOK)
        fail("list", code);
    long ours = sequence(session->made), best = -1;
    const char *previous = NULL;
    for (int i = 0; i < children->count; i++) {
        long number = sequence(children->data[i]);
        if (number < ours && number > best) {
            best = number;
            previous = children->data[i];
        }
    }
    if (previous) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", session->directory, previous);
        code = zoo_awget(session->handle, path, on_left, session, on_watched, session);
    } else {
        code = zoo_adelete(session->handle, session->made, -1, on_deleted, session);
    }
    if (code != ZOK)
        fail("next step", code);
}

static void list(struct session *session) {
    int code = zoo_aget_children(session->handle, session->directory, 0, on_listed, session);
    if (code != ZOK)
        fail("list", code);
}

static void on_created(int code, const char *path, const void *context) {
    struct session *session = (struct session *)context;
    if (code != ZOK)
        fail("create", code);
    snprintf(session->made, sizeof session->made, "%s", path);
    list(session);
}

static void on_read(int code, const char *value, int length, const struct Stat *stat, const void *context) {
    (void)value, (void)length, (void)stat;
    if (code != ZOK)
        fail("read", code);
    cycle_done((struct session *)context);
}

static void begin(struct session *session) {
    int code;
    session->began = now_ns();
    session->running = 1;
    if (workload == READS)
        code = zoo_aget(session->handle, session->directory, 0, on_read, session);
    else
        code = zoo_acreate(session->handle, session->prefix, "192.168.17.42", 13, &ZOO_OPEN_ACL_UNSAFE,
                           ZOO_EPHEMERAL | ZOO_SEQUENCE, on_created, session);
    if (code != ZOK)
        fail("begin", code);
}

/* One round of the event loop for all sessions. */
static void turn(void) {
    static struct pollfd polled[SESSIONS_MAX];
    int wait_ms = 100;
    for (int i = 0; i < session_count; i++) {
        int interest = 0, fd = -1;
        struct timeval left = {0, 0};
        int code = zookeeper_interest(sessions[i].handle, &fd, &interest, &left);
        if (code != ZOK && code != ZCONNECTIONLOSS && code != ZOPERATIONTIMEOUT)
            fail("connection", code);
        polled[i].fd = code == ZOK ? fd : -1;
        polled[i].events = (interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0);
        polled[i].revents = 0;
    }
    if (poll(polled, session_count, wait_ms) < 0 && errno != EINTR)
        exit(4);
    for (int i = 0; i < session_count; i++) {
        int events = (polled[i].revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
                     (polled[i].revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
        if (!events)
            continue;
        int code = zookeeper_process(sessions[i].handle, events);
        if (code == ZSESSIONEXPIRED || code == ZAUTHFAILED)
            fail("session", code);
    }
}

static int all_connected(void) {
    for (int i = 0; i < session_count; i++)
        if (zoo_state(sessions[i].handle) != ZOO_CONNECTED_STATE)
            return 0;
    return 1;
}

static int any_running(void) {
    for (int i = 0; i < session_count; i++)
        if (sessions[i].running)
            return 1;
    return 0;
}

static int waiting;

static void on_prepared(int code, const char *path, const void *context) {
    (void)path, (void)context;
    if (code != ZOK && code != ZNODEEXISTS)
        fail("prepare", code);
    waiting--;
}

static void await_prepared(void) {
    for (long long limit = now_ns() + 30000000000LL; waiting > 0; turn())
        if (now_ns() > limit)
            fail("prepare", ZOPERATIONTIMEOUT);
}

static void prepare(void) {
    static const char data[100];
    waiting = 1;
    zoo_acreate(sessions[0].handle, ROOT, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, on_prepared, NULL);
    await_prepared();
    for (int i = 0; i < session_count; i++) {
        waiting++;
        zoo_acreate(sessions[i].handle, sessions[i].directory, data, sizeof data, &ZOO_OPEN_ACL_UNSAFE, 0, on_prepared, NULL);
    }
    await_prepared();
}

static void run_for(double seconds) {
    for (long long limit = now_ns() + (long long)(seconds * 1e9); now_ns() < limit;)
        turn();
}

static int ascending(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* The connect string, beginning with another address for each session. */
static void rotated(const char *connect, int by, char *result, size_t size) {
    const char *parts[64];
    char copy[4096], *rest = copy;
    int count = 0;
    snprintf(copy, sizeof copy, "%s", connect);
    for (char *part; (part = strsep(&rest, ",")) && count < 64;)
        parts[count++] = part;
    result[0] = 0;
    for (int i = 0; i < count; i++) {
        size_t used = strlen(result);
        snprintf(result + used, size - used, "%s%s", i ? "," : "", parts[(i + by) % count]);
    }
}

static void connect_all(const char *connect) {
    char addresses[4096];
    zoo_deterministic_conn_order(1);
    for (int i = 0; i < session_count; i++) {
        struct session *session = &sessions[i];
        snprintf(session->directory, sizeof session->directory, ROOT "/lock%d", workload == ONE ? 0 : i);
        snprintf(session->prefix, sizeof session->prefix, "%s/lock-", session->directory);
        rotated(connect, i, addresses, sizeof addresses);
        session->handle = zookeeper_init(addresses, NULL, TIMEOUT_MS, NULL, session, 0);
        if (!session->handle)
            exit(4);
        /* Else each look at a session asks the system for the addresses of its interfaces, and that is what is measured. */
        if (zoo_set_servers_resolution_delay(session->handle, -1) != ZOK)
            exit(4);
    }
    for (long long limit = now_ns() + 30000000000LL; !all_connected(); turn())
        if (now_ns() > limit)
            fail("connect", ZOPERATIONTIMEOUT);
}

static void report(double seconds) {
    qsort(samples, sample_count, sizeof *samples, ascending);
    unsigned none = 0, *sorted = sample_count ? samples : &none;
    size_t last = sample_count ? sample_count - 1 : 0;
    printf("{\"cycles\":%zu,\"seconds\":%.3f,\"per_second\":%.1f,\"p50_us\":%u,\"p99_us\":%u,\"max_us\":%u}\n", sample_count,
           seconds, sample_count / seconds, sorted[last / 2], sorted[(size_t)(last * 0.99)], sorted[last]);
}

int main(int count, char **arguments) {
    if (count != 5)
        return 2;
    session_count = atoi(arguments[2]);
    double seconds = atof(arguments[3]);
    workload = !strcmp(arguments[4], "one") ? ONE : !strcmp(arguments[4], "reads") ? READS : OWN;
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (session_count < 1 || session_count > SESSIONS_MAX || !samples)
        return 2;
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    connect_all(arguments[1]);
    prepare();
    for (int i = 0; i < session_count; i++)
        begin(&sessions[i]);
    run_for(seconds / 4);
    measuring = 1;
    long long from = now_ns();
    run_for(seconds);
    double measured = (now_ns() - from) / 1e9;
    measuring = 0;
    ending = 1;
    for (long long limit = now_ns() + 10000000000LL; any_running() && now_ns() < limit;)
        turn();
    report(measured);
    for (int i = 0; i < session_count; i++)
        zookeeper_close(sessions[i].handle);
    return 0;
}
