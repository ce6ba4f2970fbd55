/* The wall clock of one node under test: clock_gettime(CLOCK_REALTIME) plus an offset in milliseconds. The test can
 * change the offset at any time; it is a native 64-bit number in the file named by TEST_CLOCK_OFFSET. All other clocks
 * are unchanged. clock.rs preloads this library into the process. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NANOS_PER_SECOND 1000000000LL

static const int64_t *offset_ms;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("TEST_CLOCK_OFFSET");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset_ms, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror("TEST_CLOCK_OFFSET");
        abort();
    }
    close(file);
    offset_ms = page;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (failed == 0 && clock == CLOCK_REALTIME && offset_ms != NULL) {
        int64_t offset = __atomic_load_n(offset_ms, __ATOMIC_RELAXED) * 1000000LL;
        int64_t nanos = (int64_t)time->tv_sec * NANOS_PER_SECOND + time->tv_nsec + offset;
        time->tv_sec = nanos / NANOS_PER_SECOND;
        time->tv_nsec = nanos % NANOS_PER_SECOND;
    }
    return failed;
}
