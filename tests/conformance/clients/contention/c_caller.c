/*
 * Takes the lock with ZooKeeper's C client (multi-threaded), again and again: an ephemeral sequential znode named lock-,
 * the children in the order of their last ten digits, a watch on the one before. Arguments, modes and log as those of
 * the kazoo caller (see log.py).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define PATH "/locks/orders"
#define DIGITS 10

static const char *directory, *who;
static int events, cycle;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int connected, gone;

static void say(const char *what, const char *format, ...) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    char line[1024], more[512];
    va_list list;
    va_start(list, format);
    vsnprintf(more, sizeof more, format, list);
    va_end(list);
    int length = snprintf(line, sizeof line, "{\"t\":%lld,\"who\":\"%s\",\"what\":\"%s\",\"cycle\":%d%s}\n",
                          now.tv_sec * 1000000000LL + now.tv_nsec, who, what, cycle, more);
    if (write(events, line, length) != length)
        exit(4);
}

static void fail(const char *what, int code) {
    say("lost", ",\"why\":\"%s: %s\"", what, zerror(code));
    exit(1);
}

static const char *in_directory(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void pause_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR) {
    }
}

/* Session events, and the one watch on the contender before ours. */
static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context) {
    (void)handle, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE)
        fail("session", ZSESSIONEXPIRED);
    pthread_mutex_lock(&guard);
    if (type == ZOO_SESSION_EVENT)
        connected = state == ZOO_CONNECTED_STATE;
    else
        gone = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static void await_flag(int *flag) {
    pthread_mutex_lock(&guard);
    while (!*flag)
        pthread_cond_wait(&changed, &guard);
    pthread_mutex_unlock(&guard);
}

static long sequence(const char *name) {
    size_t length = strlen(name);
    return length < DIGITS ? -1 : strtol(name + length - DIGITS, NULL, 10);
}

/* The child with the largest number below ours; false if there is none. */
static int before(struct String_vector *children, long ours, char *found, size_t size) {
    long best = -1;
    for (int i = 0; i < children->count; i++) {
        long number = sequence(children->data[i]);
        if (number < ours && number > best) {
            best = number;
            snprintf(found, size, PATH "/%s", children->data[i]);
        }
    }
    return best >= 0;
}

/* Asks again while the connection is down; any other error ends us. */
static int is_transient(zhandle_t *handle, int code, const char *what) {
    (void)handle;
    if (code != ZCONNECTIONLOSS && code != ZOPERATIONTIMEOUT)
        fail(what, code);
    await_flag(&connected);
    return 1;
}

/* The directory of the lock, and its parent. */
static void ensure_directory(zhandle_t *handle) {
    const char *paths[] = {"/locks", PATH};
    for (int i = 0; i < 2; i++) {
        int code = zoo_create(handle, paths[i], NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
        if (code != ZOK && code != ZNODEEXISTS)
            fail(paths[i], code);
    }
}

/* Makes the contender. A lost answer is not recovered here: no fault is injected while a C client creates. */
static void enqueue(zhandle_t *handle, char *made, int size) {
    int code = zoo_create(handle, PATH "/lock-", who, strlen(who), &ZOO_OPEN_ACL_UNSAFE,
                          ZOO_EPHEMERAL | ZOO_SEQUENCE, made, size);
    if (code != ZOK)
        fail("create", code);
    say("enqueue", ",\"node\":\"%s\",\"seq\":%ld", made, sequence(made));
}

static void acquire(zhandle_t *handle, char *made, int size) {
    enqueue(handle, made, size);
    for (;;) {
        struct String_vector children;
        int code = zoo_get_children(handle, PATH, 0, &children);
        if (code != ZOK && is_transient(handle, code, "list"))
            continue;
        char previous[512];
        int waits = before(&children, sequence(made), previous, sizeof previous);
        deallocate_String_vector(&children);
        if (!waits)
            return;
        gone = 0;
        char data[64];
        int length = sizeof data;
        struct Stat stat;
        /* Not exists: on a contender that has left, that would leave a watch behind. */
        code = zoo_wget(handle, previous, on_event, NULL, data, &length, &stat);
        if (code == ZOK)
            await_flag(&gone);
        else if (code != ZNONODE)
            is_transient(handle, code, "watch");
    }
}

static void release(zhandle_t *handle, const char *made) {
    int code;
    while ((code = zoo_delete(handle, made, -1)) != ZOK && code != ZNONODE)
        is_transient(handle, code, "delete");
}

static int enter(const char *made) {
    int witness = open(in_directory("witness"), O_WRONLY | O_CREAT | O_EXCL, 0644);
    const char *what = witness >= 0 ? "grant" : "overlap";
    if (witness >= 0) {
        if (write(witness, who, strlen(who)) < 0)
            exit(4);
        close(witness);
    }
    say(what, ",\"node\":\"%s\",\"seq\":%ld", made, sequence(made));
    return witness >= 0;
}

static void work(long hold_ms) {
    char written[4200];
    long value = 0;
    FILE *file = fopen(in_directory("counter"), "r");
    if (!file || fscanf(file, "%ld", &value) != 1)
        exit(4);
    fclose(file);
    pause_ms(hold_ms);
    snprintf(written, sizeof written, "%s.%s", in_directory("counter"), who);
    file = fopen(written, "w");
    if (!file)
        exit(4);
    fprintf(file, "%ld\n", value + 1);
    fclose(file);
    if (rename(written, in_directory("counter")))
        exit(4);
}

static void once(zhandle_t *handle, const char *mode, long hold_ms) {
    char made[512];
    say("send", "");
    acquire(handle, made, sizeof made);
    int made_witness = enter(made);
    if (!strcmp(mode, "hold"))
        pause_ms(3600000);
    work(hold_ms);
    if (made_witness)
        unlink(in_directory("witness"));
    say("release", "");
    release(handle, made);
}

int main(int count, char **arguments) {
    if (count != 8)
        return 2;
    directory = arguments[2];
    who = arguments[3];
    events = open(in_directory("events.jsonl"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    zhandle_t *handle = zookeeper_init(arguments[1], on_event, atoi(arguments[7]), NULL, NULL, 0);
    if (!handle || events < 0)
        return 4;
    await_flag(&connected);
    ensure_directory(handle);
    for (int cycles = atoi(arguments[5]); cycle < cycles || access(in_directory("stop"), F_OK); cycle++)
        once(handle, arguments[4], atol(arguments[6]));
    zookeeper_close(handle);
    say("done", "");
    return 0;
}
