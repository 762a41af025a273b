/* A process that waits without end for a file system of a user, in the way that the first argument says, and the
 * file system: a FUSE server that leaves one request without an answer. Says `ready PID` when the process waits, or
 * `skipped: …` and exits with status 77 if there can be no such file system here. Everything ends with the server: the
 * mount is in its own mount namespace, and closing its descriptor aborts what waits.
 *
 *   unmap      a thread holds mmap_lock: it replaces a page that was written to, and the server does not take it
 *   heap       the thread-specific data of jemalloc is on a page that the server does not provide
 *   name       as `unmap`, in a process whose name has 15 bytes and may have been cut
 *   execute    execve() of a program that the server does not provide: holds cred_guard_mutex
 *   leave      execve() leaves a page that was written to: holds exec_update_lock
 *   exit       the process exits, which closes a file
 *
 * The second argument is the user of the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ROOM = 1 << 17 };

/* What the probe looks for of jemalloc, on a page of its own. */
struct tsd_s {
    char before[40];
    uint64_t thread_deallocated;
    uint32_t between[3];
    uint64_t thread_allocated;
    char after[PAGE - 72];
};

static __thread struct tsd_s tsd_tls __attribute__((used, aligned(4096), tls_model("initial-exec")));

static const char *directory;
/* The server reads from here that a page is in its place. */
static int said_to;

static void skip(const char *what) {
    printf("skipped: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(77);
}

static void fail(const char *what) {
    perror(what);
    _exit(1);
}

/* ---- the process ---- */

static int open_file(const char *name, int flags) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int file = open(path, flags | O_CLOEXEC);
    if (file < 0) fail(path);
    return file;
}

static char *map_at(void *address, int flags) {
    int file = open_file("file", flags & MAP_SHARED ? O_RDWR : O_RDONLY);
    char *page = mmap(address, PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
    if (page == MAP_FAILED) fail("mmap");
    return page;
}

/* munmap() would hold the lock for reading only. */
static void *unmap(void *page) {
    mmap(page, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return NULL;
}

static void behave(const char *mode) {
    pthread_t thread;
    tsd_tls.thread_allocated = 1;
    if (!strcmp(mode, "name")) prctl(PR_SET_NAME, "fifteen-letters");
    if (!strcmp(mode, "unmap") || !strcmp(mode, "name")) {
        char *page = map_at(NULL, MAP_SHARED);
        *page = 1;
        pthread_create(&thread, NULL, unmap, page);
    } else if (!strcmp(mode, "heap")) {
        map_at(&tsd_tls, MAP_PRIVATE | MAP_FIXED);
        if (write(said_to, "x", 1) != 1) fail("write");
    } else if (!strcmp(mode, "execute")) {
        char path[256];
        snprintf(path, sizeof path, "%s/program", directory);
        execl(path, path, NULL);
        fail(path);
    } else if (!strcmp(mode, "leave")) {
        *map_at(NULL, MAP_SHARED) = 1;
        execl("/bin/sleep", "sleep", "1000", NULL);
        fail("/bin/sleep");
    } else if (!strcmp(mode, "exit")) {
        open_file("file", O_RDONLY);
        _exit(0);
    }
    for (;;) pause();
}

/* ---- the file system ---- */

static void attributes(struct fuse_attr *attr, uint64_t node) {
    memset(attr, 0, sizeof *attr);
    attr->ino = node;
    attr->mode = node == 1 ? S_IFDIR | 0777 : S_IFREG | 0777;
    attr->nlink = 1;
    attr->size = PAGE;
    attr->blksize = PAGE;
}

static void answer(int fuse, uint64_t unique, int error, const void *data, size_t size) {
    char buffer[ROOM];
    struct fuse_out_header header = {.len = sizeof header + size, .error = -error, .unique = unique};
    memcpy(buffer, &header, sizeof header);
    if (size) memcpy(buffer + sizeof header, data, size);
    if (write(fuse, buffer, header.len) < 0 && errno != ENOENT) fail("answer");
}

static void serve(int fuse, const char *mode, pid_t process) {
    static char buffer[ROOM], zeros[ROOM / 2];
    uint32_t unanswered = !strcmp(mode, "heap") || !strcmp(mode, "execute") ? FUSE_READ
                          : !strcmp(mode, "exit")                           ? FUSE_FLUSH
                                                                            : FUSE_WRITE;
    for (;;) {
        ssize_t got = read(fuse, buffer, sizeof buffer);
        if (got < 0 && (errno == EINTR || errno == ENOENT)) continue;
        if (got < 0) fail("read of /dev/fuse");
        struct fuse_in_header *in = (void *)buffer;
        void *body = in + 1;
        if (in->opcode == unanswered) {
            printf("ready %d\n", process);
            fflush(stdout);
            continue;
        }
        switch (in->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out out = {.major = 7, .minor = 31, .max_write = ROOM / 2, .max_background = 8,
                                        .congestion_threshold = 6};
            answer(fuse, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out out = {.nodeid = strcmp(body, "program") ? 2 : 3, .entry_valid = 3600,
                                         .attr_valid = 3600};
            attributes(&out.attr, out.nodeid);
            answer(fuse, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out out = {.attr_valid = 3600};
            attributes(&out.attr, in->nodeid);
            answer(fuse, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = {.fh = 1};
            answer(fuse, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_READ: {
            struct fuse_read_in *wanted = body;
            size_t size = wanted->offset >= PAGE ? 0 : PAGE - wanted->offset;
            answer(fuse, in->unique, 0, zeros, size < wanted->size ? size : wanted->size);
            break;
        }
        case FUSE_FLUSH:
        case FUSE_RELEASE:
            answer(fuse, in->unique, 0, NULL, 0);
            break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            break;
        default:
            answer(fuse, in->unique, ENOSYS, NULL, 0);
        }
    }
}

/* The directory of the file system, in a mount namespace of this process. */
static int mounted(void) {
    char options[128];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0) skip("/dev/fuse");
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) skip("unshare");
    /* A directory of the namespace alone: nothing is left to remove. */
    if (mount("tmpfs", "/mnt", "tmpfs", 0, "mode=755")) skip("tmpfs");
    directory = "/mnt/files";
    if (mkdir(directory, 0755)) fail(directory);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
    if (mount("fuse", directory, "fuse", MS_NOSUID | MS_NODEV, options)) skip("mount of fuse");
    return fuse;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    const char *mode = arguments[1];
    unsigned user = (unsigned)atoi(arguments[2]);
    int said[2];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fuse = mounted();
    if (pipe2(said, O_CLOEXEC)) fail("pipe");
    pid_t process = fork();
    if (process == 0) {
        close(fuse);
        if (setresgid(user, user, user) || setresuid(user, user, user)) fail("setresuid");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_DUMPABLE, 1);
        said_to = said[1];
        behave(mode);
    }
    close(said[1]);
    if (!strcmp(mode, "heap")) {
        /* The process says itself that its page is there: nobody reads it yet. */
        pid_t waits = fork();
        if (waits == 0) {
            char byte;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(fuse);
            if (read(said[0], &byte, 1) == 1) {
                printf("ready %d\n", process);
                fflush(stdout);
            }
            _exit(0);
        }
    }
    close(said[0]);
    serve(fuse, mode, process);
}
