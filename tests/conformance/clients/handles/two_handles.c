/*
 * Two handles of ZooKeeper's C client (multi-threaded) share one session: the second takes it over with the first one's
 * number and password, and closes it after some milliseconds, while the first lives and reconnects.
 * Arguments: connect string, milliseconds. Prints the state of the second handle before the close, and exits with 0 if
 * the session's ephemeral is gone, 1 if it is there, 2 if the question could not be asked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define TIMEOUT_MS 10000
#define DEADLINE_S 30

static void quiet(zhandle_t *handle, int type, int state, const char *path, void *context) {}

static void pause_ms(long ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void refuse(const char *what, int code) {
    fprintf(stderr, "%s: %s\n", what, zerror(code));
    exit(2);
}

static zhandle_t *open_handle(const char *servers, const clientid_t *session) {
    zhandle_t *handle = zookeeper_init(servers, quiet, TIMEOUT_MS, session, NULL, 0);
    time_t deadline = time(NULL) + DEADLINE_S;
    while (handle != NULL && zoo_state(handle) != ZOO_CONNECTED_STATE && time(NULL) < deadline)
        pause_ms(1);
    if (handle == NULL || zoo_state(handle) != ZOO_CONNECTED_STATE)
        refuse("no connection", ZOPERATIONTIMEOUT);
    return handle;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    zoo_set_debug_level(0);
    char path[64];
    snprintf(path, sizeof path, "/two-handles-%d", getpid());
    zhandle_t *first = open_handle(arguments[1], NULL);
    int code = zoo_create(first, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
    if (code != ZOK)
        refuse("create", code);
    zhandle_t *second = open_handle(arguments[1], zoo_client_id(first));
    pause_ms(atol(arguments[2]));
    printf("%d\n", zoo_state(second));
    fflush(stdout);
    zookeeper_close(second);
    zhandle_t *other = open_handle(arguments[1], NULL);
    /* The close is not awaited by the client: the ephemeral has a while to go, and much less than its session's time. */
    time_t deadline = time(NULL) + TIMEOUT_MS / 2000;
    do {
        code = zoo_exists(other, path, 0, NULL);
        pause_ms(10);
    } while (code == ZOK && time(NULL) < deadline);
    zookeeper_close(other);
    if (code != ZOK && code != ZNONODE)
        refuse("exists", code);
    _exit(code == ZNONODE ? 0 : 1);
}
