/* Power cuts and sick disks for a real process, without root: an LD_PRELOAD library.
 *
 *   cc -shared -fPIC -O2 -o shim.so shim.c -ldl -lpthread
 *   BOXOFFICE_FAULT_DIR=/path/of/data BOXOFFICE_FAULT_CONTROL=/path/of/control LD_PRELOAD=./shim.so program
 *
 * For regular files below BOXOFFICE_FAULT_DIR, written bytes are HELD in this process's memory until fsync
 * or fdatasync of that file (by any descriptor). Only then are they written and really synced.
 * So kill -9 is a power cut: unsynced bytes are gone. Reads, lengths and truncation in this process see
 * the held bytes. An orderly exit writes the held bytes, without a sync.
 *
 * With BOXOFFICE_FAULT_UNITS="BYTES PERCENT SEED" each unit of so many bytes is lost by itself: PERCENT of the units that are
 * written between two syncs of a file are held, and the others reach the disk at once. Which ones is drawn from SEED.
 *
 * The control file is read at every sync and at every call that makes a file longer. Each line is one
 * fault. The last word may limit it to files whose path contains that word:
 *
 *   enospc [NAME]        calls that make a file longer fail with ENOSPC: writes, ftruncate, fallocate
 *   eio [NAME]           fsync and fdatasync fail with EIO. As on Linux, the held bytes can be read from then on,
 *                        also by later processes, count as written, and are lost at the next power cut unless
 *                        they are written again and synced. The file CONTROL.lost lists the ranges to take
 *                        back at the power cut. The test takes them back, because no process runs then.
 *   slow MS [NAME]       fsync and fdatasync take MS milliseconds longer
 *   torn BYTES [NAME]    at the next sync with held bytes only the first BYTES of them (in the order of
 *                        writing) reach the file, and SIGKILL ends the process
 *
 * A missing or empty file means no fault. Write it aside and rename it, so that no partial line is read.
 * BYTES may be 0 or any other number. Disks tear at multiples of 512 of the file's position.
 *
 * Names are not held back: creating, renaming and removing take effect at once, as if every directory were
 * synced at once. So do changes of the length (ftruncate, fallocate). Not intercepted: mmap, sendfile,
 * copy_file_range, splice, io_uring, AIO, system calls made without the C library, other processes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* One held write. */
struct held {
    struct held *next;
    off_t at;
    size_t bytes;
    unsigned char data[];
};

/* One file with held writes, identified by its inode, which outlives names and descriptors. */
struct file {
    struct file *next;
    dev_t dev;
    ino_t ino;
    int fd;      /* Our own descriptor, so that closing theirs loses nothing. */
    off_t length; /* With what is held. */
    uint64_t draw; /* Differs between files, and between two syncs of one. */
    struct held *first, *last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;
static char directory[PATH_MAX];
static size_t directory_bytes;
static const char *control;
static uint64_t unit_bytes, unit_percent = 100, unit_seed;
static uint64_t draws;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_readv)(int, const struct iovec *, int);
static ssize_t (*real_preadv)(int, const struct iovec *, int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_fallocate)(int, int, off_t, off_t);
static off_t (*real_lseek)(int, off_t, int);
static int (*real_fstat)(int, struct stat *);
static int (*real_stat)(const char *, struct stat *);
static int (*real_lstat)(const char *, struct stat *);
static int (*real_fstatat)(int, const char *, struct stat *, int);
static int (*real_unlink)(const char *);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_statx)(int, const char *, int, unsigned int, struct statx *);

static void find(void *place, const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(place, &found, sizeof found);
}

__attribute__((constructor)) static void begin(void) {
    find(&real_write, "write");
    find(&real_pwrite, "pwrite64");
    find(&real_writev, "writev");
    find(&real_pwritev, "pwritev64");
    find(&real_read, "read");
    find(&real_pread, "pread64");
    find(&real_readv, "readv");
    find(&real_preadv, "preadv64");
    find(&real_fsync, "fsync");
    find(&real_fdatasync, "fdatasync");
    find(&real_ftruncate, "ftruncate64");
    find(&real_fallocate, "fallocate64");
    find(&real_lseek, "lseek64");
    find(&real_fstat, "fstat64");
    find(&real_stat, "stat64");
    find(&real_lstat, "lstat64");
    find(&real_fstatat, "fstatat64");
    find(&real_statx, "statx");
    find(&real_unlink, "unlink");
    find(&real_unlinkat, "unlinkat");
    control = getenv("BOXOFFICE_FAULT_CONTROL");
    const char *units = getenv("BOXOFFICE_FAULT_UNITS");
    if (units && sscanf(units, "%" SCNu64 " %" SCNu64 " %" SCNu64, &unit_bytes, &unit_percent, &unit_seed) != 3) {
        fprintf(stderr, "shim: BOXOFFICE_FAULT_UNITS %s: three numbers are expected\n", units);
        _exit(97);
    }
    const char *wanted = getenv("BOXOFFICE_FAULT_DIR");
    if (!wanted) return;
    if (!realpath(wanted, directory)) {
        fprintf(stderr, "shim: BOXOFFICE_FAULT_DIR %s: %s\n", wanted, strerror(errno));
        _exit(97);
    }
    directory_bytes = strlen(directory);
}

/* Other libraries may call before this constructor has run. */
#define READY() do { if (!real_statx) begin(); } while (0)

static int is_below(const char *path) {
    return !strncmp(path, directory, directory_bytes) && path[directory_bytes] == '/';
}

/* Stores the path of `fd` in `path`. 0 if it is not a regular file below the directory. Needs no lock. */
static int is_ours(int fd, struct stat *status, char *path) {
    if (!directory_bytes || fd < 0) return 0;
    if (syscall(SYS_fstat, fd, status) || !S_ISREG(status->st_mode)) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, PATH_MAX - 1);
    if (bytes <= 0) return 0;
    path[bytes] = 0;
    return is_below(path);
}

static struct file *known(dev_t dev, ino_t ino) {
    for (struct file *file = files; file; file = file->next)
        if (file->dev == dev && file->ino == ino) return file;
    return NULL;
}

/* The held file behind `fd`, if there is one. Cheap when nothing is held. */
static struct file *held_file(int fd) {
    struct stat status;
    if (!files || fd < 0 || syscall(SYS_fstat, fd, &status)) return NULL;
    return known(status.st_dev, status.st_ino);
}

static void drop_held(struct file *file) {
    while (file->first) {
        struct held *next = file->first->next;
        free(file->first);
        file->first = next;
    }
    file->last = NULL;
}

static void forget(struct file *file) {
    drop_held(file);
    for (struct file **place = &files; *place; place = &(*place)->next)
        if (*place == file) {
            *place = file->next;
            break;
        }
    close(file->fd);
    free(file);
}

/* ---- faults ---- */

/* The number of the fault `name` for `path`: 0 for a fault without a number, -1 for none. */
static long ordered(const char *name, const char *path) {
    if (!control) return -1;
    int fd = open(control, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    char text[1024];
    ssize_t bytes = real_read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0) return -1;
    text[bytes] = 0;
    char *rest_of_text = NULL;
    for (char *line = strtok_r(text, "\n", &rest_of_text); line;
         line = strtok_r(NULL, "\n", &rest_of_text)) {
        char *rest = NULL, *word = strtok_r(line, " \t\r", &rest);
        if (!word || strcmp(word, name)) continue;
        long number = 0;
        if (!strcmp(name, "slow") || !strcmp(name, "torn")) {
            char *digits = strtok_r(NULL, " \t\r", &rest);
            number = digits ? atol(digits) : 0;
        }
        char *part = strtok_r(NULL, " \t\r", &rest);
        if (!part || strstr(path, part)) return number;
    }
    return -1;
}

static int is_full(const char *path) { return ordered("enospc", path) >= 0; }

/* ---- writing ---- */

static struct file *hold_open(int fd, const struct stat *status) {
    struct file *file = known(status->st_dev, status->st_ino);
    if (file) return file;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    /* Opened again, because a duplicate would keep the program's locks alive. */
    int own = open(link, O_RDWR | O_CLOEXEC);
    if (own < 0) return NULL;
    file = calloc(1, sizeof *file);
    if (!file) {
        close(own);
        return NULL;
    }
    file->dev = status->st_dev;
    file->ino = status->st_ino;
    file->fd = own;
    file->length = status->st_size;
    file->draw = unit_seed + 0x9e3779b97f4a7c15u * ++draws;
    file->next = files;
    files = file;
    return file;
}

/* Whether a unit of a file is held until the next sync. */
static int is_held(const struct file *file, uint64_t unit) {
    uint64_t bits = file->draw ^ (unit + 1) * 0xd1342543de82ef95u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return (bits ^ bits >> 31) % 100 < unit_percent;
}

/* Writes what reaches the disk without a sync. */
static void let_through(const struct file *file, const struct held *held) {
    if (!unit_bytes) return;
    off_t end = held->at + held->bytes;
    for (off_t at = held->at; at < end;) {
        off_t unit = at / unit_bytes, next = (unit + 1) * unit_bytes;
        if (next > end) next = end;
        if (!is_held(file, unit) && real_pwrite(file->fd, held->data + (at - held->at), next - at, at) < 0) abort();
        at = next;
    }
}

/* Holds the parts at `at` (-1: the descriptor's own position). -2: another file, call the real function. */
static ssize_t hold(int fd, const struct iovec *parts, int count, off_t at) {
    struct stat status;
    char path[PATH_MAX];
    if (!is_ours(fd, &status, path)) return -2;
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    if (!bytes) return 0;
    int flags = fcntl(fd, F_GETFL);
    if ((flags & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return -1;
    }
    pthread_mutex_lock(&lock);
    struct file *file = hold_open(fd, &status);
    struct held *held = file ? malloc(sizeof *held + bytes) : NULL;
    if (!held) {
        pthread_mutex_unlock(&lock);
        errno = EIO;
        return -1;
    }
    int moves = at < 0;
    if (moves) at = flags & O_APPEND ? file->length : real_lseek(fd, 0, SEEK_CUR);
    if (at + (off_t)bytes > file->length && is_full(path)) {
        free(held);
        if (!file->first) forget(file);
        pthread_mutex_unlock(&lock);
        errno = ENOSPC;
        return -1;
    }
    held->next = NULL;
    held->at = at;
    held->bytes = bytes;
    size_t filled = 0;
    for (int i = 0; i < count; i++) {
        memcpy(held->data + filled, parts[i].iov_base, parts[i].iov_len);
        filled += parts[i].iov_len;
    }
    if (file->last) file->last->next = held; else file->first = held;
    file->last = held;
    if (at + (off_t)bytes > file->length) file->length = at + bytes;
    let_through(file, held);
    if (moves) real_lseek(fd, at + bytes, SEEK_SET);
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* Writes at most `limit` held bytes of `file`. */
static int put_down(struct file *file, size_t limit) {
    for (struct held *held = file->first; held && limit; held = held->next) {
        size_t bytes = held->bytes < limit ? held->bytes : limit;
        for (size_t done = 0; done < bytes;) {
            ssize_t wrote = real_pwrite(file->fd, held->data + done, bytes - done, held->at + done);
            if (wrote < 0) {
                if (errno == EINTR) continue;
                return -1;
            }
            done += wrote;
        }
        limit -= bytes;
    }
    return 0;
}

/* Appends to CONTROL.lost that a range of `path` was lost, with the bytes on the disk, or was written durably. Numbers in
 * native byte order: kind (1), length of the path (8), path, position (8), bytes (8), and for a loss those bytes. */
static void note(struct file *file, const char *path, int is_lost) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s.lost", control ? control : "");
    /* Without a loss there is nothing to take back. */
    int fd = control ? open(name, O_WRONLY | O_APPEND | O_CLOEXEC | (is_lost ? O_CREAT : 0), 0600) : -1;
    if (fd < 0) return;
    for (struct held *held = file->first; held; held = held->next) {
        uint64_t numbers[3] = {strlen(path), held->at, held->bytes};
        unsigned char kind = is_lost ? 'L' : 'W';
        unsigned char *before = is_lost ? calloc(1, held->bytes + 1) : NULL;
        if (before && real_pread(file->fd, before, held->bytes, held->at) < 0) abort();
        struct iovec parts[5] = {{&kind, 1},
                                 {&numbers[0], 8},
                                 {(void *)path, numbers[0]},
                                 {&numbers[1], 16},
                                 {before, before ? held->bytes : 0}};
        if (real_writev(fd, parts, 5) < 0) abort();
        free(before);
    }
    close(fd);
}

static int synced(int fd, int (*real)(int)) {
    struct stat status;
    char path[PATH_MAX];
    if (!is_ours(fd, &status, path)) return real(fd);
    long slow = ordered("slow", path);
    if (slow > 0) {
        struct timespec wait = {slow / 1000, slow % 1000 * 1000000};
        nanosleep(&wait, NULL);
    }
    pthread_mutex_lock(&lock);
    struct file *file = known(status.st_dev, status.st_ino);
    if (ordered("eio", path) >= 0) {
        if (file) {
            note(file, path, 1);
            put_down(file, SIZE_MAX);
            forget(file);
        }
        pthread_mutex_unlock(&lock);
        errno = EIO;
        return -1;
    }
    int failed = 0;
    if (file) {
        long torn = ordered("torn", path);
        if (torn >= 0) {
            put_down(file, torn);
            real_fsync(file->fd);
            kill(getpid(), SIGKILL);
            pause();
        }
        failed = put_down(file, SIZE_MAX);
        int error = errno;
        if (!failed) note(file, path, 0);
        forget(file);
        errno = error;
    }
    pthread_mutex_unlock(&lock);
    return failed ? -1 : real(fd);
}

__attribute__((destructor)) static void end(void) {
    pthread_mutex_lock(&lock);
    while (files) {
        put_down(files, SIZE_MAX);
        forget(files);
    }
    pthread_mutex_unlock(&lock);
}

int fsync(int fd) {
    READY();
    return synced(fd, real_fsync);
}
int fdatasync(int fd) {
    READY();
    return synced(fd, real_fdatasync);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    READY();
    struct iovec part = {(void *)data, bytes};
    ssize_t held = hold(fd, &part, 1, -1);
    return held == -2 ? real_write(fd, data, bytes) : held;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) {
    READY();
    struct iovec part = {(void *)data, bytes};
    ssize_t held = at < 0 ? -2 : hold(fd, &part, 1, at);
    return held == -2 ? real_pwrite(fd, data, bytes, at) : held;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    return pwrite64(fd, data, bytes, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    READY();
    ssize_t held = hold(fd, parts, count, -1);
    return held == -2 ? real_writev(fd, parts, count) : held;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) {
    READY();
    ssize_t held = at < 0 ? -2 : hold(fd, parts, count, at);
    return held == -2 ? real_pwritev(fd, parts, count, at) : held;
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return pwritev64(fd, parts, count, at);
}

/* ---- reading ---- */

/* Reads the file overlaid with its held writes. The caller has the lock. */
static ssize_t read_held(struct file *file, int fd, void *data, size_t bytes, off_t at) {
    if (at >= file->length) return 0;
    if ((off_t)bytes > file->length - at) bytes = file->length - at;
    memset(data, 0, bytes);
    ssize_t got = real_pread(fd, data, bytes, at);
    if (got < 0) return got;
    for (struct held *held = file->first; held; held = held->next) {
        off_t from = held->at > at ? held->at : at;
        off_t held_end = held->at + held->bytes, read_end = at + bytes;
        off_t to = held_end < read_end ? held_end : read_end;
        if (from < to)
            memcpy((unsigned char *)data + (from - at), held->data + (from - held->at), to - from);
    }
    return bytes;
}

static ssize_t read_parts(struct file *file, int fd, const struct iovec *parts, int count, off_t at) {
    ssize_t all = 0;
    for (int i = 0; i < count; i++) {
        ssize_t got = read_held(file, fd, parts[i].iov_base, parts[i].iov_len, at + all);
        if (got < 0) return all ? all : got;
        all += got;
        if ((size_t)got < parts[i].iov_len) break;
    }
    return all;
}

/* -2: nothing is held, call the real function. */
static ssize_t seen(int fd, const struct iovec *parts, int count, off_t at) {
    pthread_mutex_lock(&lock);
    struct file *file = held_file(fd);
    ssize_t got = -2;
    if (file) {
        int moves = at < 0;
        if (moves) at = real_lseek(fd, 0, SEEK_CUR);
        got = read_parts(file, fd, parts, count, at);
        if (moves && got > 0) real_lseek(fd, at + got, SEEK_SET);
    }
    pthread_mutex_unlock(&lock);
    return got;
}

ssize_t read(int fd, void *data, size_t bytes) {
    READY();
    struct iovec part = {data, bytes};
    ssize_t got = files ? seen(fd, &part, 1, -1) : -2;
    return got == -2 ? real_read(fd, data, bytes) : got;
}

ssize_t pread64(int fd, void *data, size_t bytes, off_t at) {
    READY();
    struct iovec part = {data, bytes};
    ssize_t got = files && at >= 0 ? seen(fd, &part, 1, at) : -2;
    return got == -2 ? real_pread(fd, data, bytes, at) : got;
}
ssize_t pread(int fd, void *data, size_t bytes, off_t at) { return pread64(fd, data, bytes, at); }

ssize_t readv(int fd, const struct iovec *parts, int count) {
    READY();
    ssize_t got = files ? seen(fd, parts, count, -1) : -2;
    return got == -2 ? real_readv(fd, parts, count) : got;
}

ssize_t preadv64(int fd, const struct iovec *parts, int count, off_t at) {
    READY();
    ssize_t got = files && at >= 0 ? seen(fd, parts, count, at) : -2;
    return got == -2 ? real_preadv(fd, parts, count, at) : got;
}
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at) {
    return preadv64(fd, parts, count, at);
}

/* ---- lengths ---- */

static off_t length_of(dev_t dev, ino_t ino, off_t real) {
    if (!files) return real;
    pthread_mutex_lock(&lock);
    struct file *file = known(dev, ino);
    off_t length = file ? file->length : real;
    pthread_mutex_unlock(&lock);
    return length;
}

int fstat64(int fd, struct stat64 *status) {
    READY();
    int failed = real_fstat(fd, (struct stat *)status);
    if (!failed) status->st_size = length_of(status->st_dev, status->st_ino, status->st_size);
    return failed;
}
int fstat(int fd, struct stat *status) { return fstat64(fd, (struct stat64 *)status); }

int stat64(const char *path, struct stat64 *status) {
    READY();
    int failed = real_stat(path, (struct stat *)status);
    if (!failed) status->st_size = length_of(status->st_dev, status->st_ino, status->st_size);
    return failed;
}
int stat(const char *path, struct stat *status) { return stat64(path, (struct stat64 *)status); }

int lstat64(const char *path, struct stat64 *status) {
    READY();
    int failed = real_lstat(path, (struct stat *)status);
    if (!failed) status->st_size = length_of(status->st_dev, status->st_ino, status->st_size);
    return failed;
}
int lstat(const char *path, struct stat *status) { return lstat64(path, (struct stat64 *)status); }

int fstatat64(int fd, const char *path, struct stat64 *status, int flags) {
    READY();
    int failed = real_fstatat(fd, path, (struct stat *)status, flags);
    if (!failed) status->st_size = length_of(status->st_dev, status->st_ino, status->st_size);
    return failed;
}
int fstatat(int fd, const char *path, struct stat *status, int flags) {
    return fstatat64(fd, path, (struct stat64 *)status, flags);
}

int statx(int fd, const char *path, int flags, unsigned int mask, struct statx *status) {
    READY();
    int failed = real_statx(fd, path, flags, mask | STATX_INO, status);
    if (!failed) {
        dev_t dev = ((dev_t)(status->stx_dev_major & 0xfffff000u) << 32) |
                    ((dev_t)(status->stx_dev_major & 0xfffu) << 8) |
                    ((dev_t)(status->stx_dev_minor & 0xffffff00u) << 12) |
                    (status->stx_dev_minor & 0xffu);
        status->stx_size = length_of(dev, status->stx_ino, status->stx_size);
    }
    return failed;
}

off_t lseek64(int fd, off_t offset, int whence) {
    READY();
    if (whence == SEEK_END && files) {
        pthread_mutex_lock(&lock);
        struct file *file = held_file(fd);
        off_t length = file ? file->length : -1;
        pthread_mutex_unlock(&lock);
        if (length >= 0) return real_lseek(fd, length + offset, SEEK_SET);
    }
    return real_lseek(fd, offset, whence);
}
off_t lseek(int fd, off_t offset, int whence) { return lseek64(fd, offset, whence); }

/* The new length takes effect at once. Held bytes beyond it are dropped. */
int ftruncate64(int fd, off_t length) {
    READY();
    struct stat status;
    char path[PATH_MAX];
    if (length < 0 || !is_ours(fd, &status, path)) return real_ftruncate(fd, length);
    pthread_mutex_lock(&lock);
    struct file *file = known(status.st_dev, status.st_ino);
    off_t before = file ? file->length : status.st_size;
    int failed = 0;
    if (length > before && is_full(path)) {
        errno = ENOSPC;
        failed = -1;
    } else {
        failed = real_ftruncate(fd, length);
    }
    if (!failed && file) {
        for (struct held *held = file->first; held; held = held->next) {
            if (held->at >= length) held->bytes = 0;
            else if (held->at + (off_t)held->bytes > length) held->bytes = length - held->at;
        }
        file->length = length;
    }
    pthread_mutex_unlock(&lock);
    return failed;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int fallocate64(int fd, int mode, off_t at, off_t bytes) {
    READY();
    struct stat status;
    char path[PATH_MAX];
    if (!is_ours(fd, &status, path)) return real_fallocate(fd, mode, at, bytes);
    if (is_full(path)) {
        errno = ENOSPC;
        return -1;
    }
    int failed = real_fallocate(fd, mode, at, bytes);
    pthread_mutex_lock(&lock);
    struct file *file = known(status.st_dev, status.st_ino);
    if (!failed && file && !(mode & FALLOC_FL_KEEP_SIZE) && at + bytes > file->length)
        file->length = at + bytes;
    pthread_mutex_unlock(&lock);
    return failed;
}
int fallocate(int fd, int mode, off_t at, off_t bytes) { return fallocate64(fd, mode, at, bytes); }

int posix_fallocate64(int fd, off_t at, off_t bytes) {
    return fallocate64(fd, 0, at, bytes) ? errno : 0;
}
int posix_fallocate(int fd, off_t at, off_t bytes) { return posix_fallocate64(fd, at, bytes); }

/* ---- names ---- */

/* The held bytes of a removed file are dropped, also for open descriptors. */
static int removed(int dir, const char *path, int flags, int (*remove)(int, const char *, int)) {
    struct stat status;
    int is_last = files && !real_fstatat(dir, path, &status, AT_SYMLINK_NOFOLLOW) &&
                  S_ISREG(status.st_mode) && status.st_nlink == 1;
    int failed = remove(dir, path, flags);
    if (!failed && is_last) {
        pthread_mutex_lock(&lock);
        struct file *file = known(status.st_dev, status.st_ino);
        if (file) forget(file);
        pthread_mutex_unlock(&lock);
    }
    return failed;
}

static int plain_unlink(int dir, const char *path, int flags) {
    (void)dir;
    (void)flags;
    return real_unlink(path);
}

int unlink(const char *path) {
    READY();
    return removed(AT_FDCWD, path, 0, plain_unlink);
}

int unlinkat(int dir, const char *path, int flags) {
    READY();
    return flags & AT_REMOVEDIR ? real_unlinkat(dir, path, flags)
                                : removed(dir, path, flags, real_unlinkat);
}
