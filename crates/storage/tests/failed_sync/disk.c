/* A disk that fails one sync and loses the dirty pages, like Linux. The bytes stay in the page cache, where every
 * process reads them until the machine restarts, and no later sync writes them. main.rs preloads it into the worker.
 *
 * FAILED_SYNC_DIR    the directory of the log; the files below it are on this disk
 * FAILED_SYNC_IMAGE  the directory of the disk: <inode>.image has the durable content of a file, <inode>.dirty the
 *                    ranges that are not durable
 * FAILED_SYNC_FILE, FAILED_SYNC_AT   the name of a file, and the number of its failing sync, from 1; 0 for none */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct range {
    off_t at;
    size_t len;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long syncs;

static void must(int good, const char *what) {
    if (!good) {
        perror(what);
        abort();
    }
}

/* Returns whether a descriptor is a file of this disk, with its path and inode. */
static int is_ours(int fd, char path[PATH_MAX], ino_t *inode) {
    const char *dir = getenv("FAILED_SYNC_DIR");
    struct stat stat;
    char link[64];
    if (dir == NULL || fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, PATH_MAX - 1);
    if (len < 0) return 0;
    path[len] = '\0';
    *inode = stat.st_ino;
    return strncmp(path, dir, strlen(dir)) == 0;
}

static int open_image(ino_t inode, const char *kind, int flags) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%lu.%s", getenv("FAILED_SYNC_IMAGE"), (unsigned long)inode, kind);
    int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0, path);
    return fd;
}

static void note(ino_t inode, off_t at, size_t len) {
    struct range range = {at, len};
    pthread_mutex_lock(&lock);
    int dirty = open_image(inode, "dirty", O_WRONLY | O_APPEND);
    must(syscall(SYS_write, dirty, &range, sizeof range) == sizeof range, "noting a write");
    close(dirty);
    pthread_mutex_unlock(&lock);
}

/* Copies a range from the page cache to the disk. */
static void copy(int from, int to, struct range range) {
    char bytes[1 << 16];
    while (range.len > 0) {
        size_t most = range.len < sizeof bytes ? range.len : sizeof bytes;
        ssize_t len = pread(from, bytes, most, range.at);
        if (len <= 0) return;
        must(syscall(SYS_pwrite64, to, bytes, len, range.at) == len, "writing the image");
        range.at += len;
        range.len -= (size_t)len;
    }
}

static int sync_file(int fd, long call) {
    char path[PATH_MAX], reopened[64];
    ino_t inode;
    if (!is_ours(fd, path, &inode)) return (int)syscall(call, fd);
    const char *file = getenv("FAILED_SYNC_FILE");
    const char *at = getenv("FAILED_SYNC_AT");
    pthread_mutex_lock(&lock);
    int counts = file != NULL && strcmp(strrchr(path, '/') + 1, file) == 0;
    int fails = counts && ++syncs == atol(at);
    int dirty = open_image(inode, "dirty", O_RDWR);
    if (!fails) {
        struct range range;
        snprintf(reopened, sizeof reopened, "/proc/self/fd/%d", fd);
        int from = open(reopened, O_RDONLY | O_CLOEXEC);
        int to = open_image(inode, "image", O_WRONLY);
        must(from >= 0, path);
        while (read(dirty, &range, sizeof range) == sizeof range) copy(from, to, range);
        close(from);
        close(to);
    }
    must(ftruncate(dirty, 0) == 0, "forgetting the dirty ranges");
    close(dirty);
    pthread_mutex_unlock(&lock);
    if (fails) errno = EIO;
    return fails ? -1 : 0;
}

int fsync(int fd) { return sync_file(fd, SYS_fsync); }

int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
    char path[PATH_MAX];
    ino_t inode;
    ssize_t written = syscall(SYS_pwrite64, fd, bytes, len, at);
    if (written > 0 && is_ours(fd, path, &inode)) note(inode, at, (size_t)written);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) { return pwrite64(fd, bytes, len, at); }

ssize_t write(int fd, const void *bytes, size_t len) {
    char path[PATH_MAX];
    ino_t inode;
    ssize_t written = syscall(SYS_write, fd, bytes, len);
    if (written > 0 && is_ours(fd, path, &inode)) {
        note(inode, lseek(fd, 0, SEEK_CUR) - written, (size_t)written);
    }
    return written;
}
