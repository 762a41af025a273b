/* Threads with data of jemalloc's kind that wait for events, and say when a wait is interrupted.
 *
 * `attack_threads KIND COUNT`: threads of the C library (`pthread`), or such that it does not know and whose thread-local
 * storage is of their own making (`bare`). `absent` are bare threads whose storage is gone once they wait: whoever reads it
 * waits for this program, which never answers (userfaultfd). Prints `tid allocated deallocated` of each, then `ready`. Prints `interrupted`
 * whenever a wait is interrupted, and `done` for every byte of its input. Ends with its input. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tsd_s {
    char before[40];
    uint64_t thread_deallocated;
    uint32_t between[3];
    uint64_t thread_allocated;
    char after[24];
};

static __thread struct tsd_s tsd_tls __attribute__((used, tls_model("initial-exec")));
static int started[2];

static void say(const char *text, size_t length) {
    if (write(1, text, length) < 0) _exit(1);
}

static int wait_for_events(void *number) {
    int descriptor = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    uint64_t own[3] = { syscall(SYS_gettid), 1000000 + (long)number, 2000000 + (long)number };
    tsd_tls.thread_allocated = own[1];
    tsd_tls.thread_deallocated = own[2];
    if (descriptor < 0 || write(started[1], own, sizeof own) != sizeof own) _exit(1);
    /* It is only interrupted by being stopped. */
    for (;;) if (epoll_wait(descriptor, &event, 1, -1) < 0 && errno == EINTR) say("interrupted\n", 12);
    return 0;
}

static void *of_library(void *number) {
    wait_for_events(number);
    return NULL;
}

#define STACK (64 << 10)
#define STORAGE (32 << 10)

static int withholds = -1;

/* Takes a page-aligned range away, so that each access to it waits. */
static int withhold(char *start, size_t length) {
    struct uffdio_register range = { .range = { (uintptr_t)start, length }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    return ioctl(withholds, UFFDIO_REGISTER, &range) || madvise(start, length, MADV_DONTNEED);
}

static int open_withholding(void) {
    struct uffdio_api api = { .api = UFFD_API };
    withholds = syscall(SYS_userfaultfd, 0);
    return withholds < 0 || ioctl(withholds, UFFDIO_API, &api);
}

static char *storage;

static int bare(long number) {
    char *memory = mmap(NULL, STACK + STORAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    /* Blocks of programs are below the thread pointer of x86-64, and above that of arm64. */
    uintptr_t *pointer = (uintptr_t *)(memory + STACK + STORAGE / 2);
    pointer[0] = pointer[2] = (uintptr_t)pointer;
    storage = memory + STACK;
    int shared = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
    return clone(wait_for_events, memory + STACK, shared, (void *)number, NULL, pointer, NULL);
}

int main(int argc, char **argv) {
    if (argc != 3 || pipe(started)) return 2;
    int is_absent = !strcmp(argv[1], "absent"), is_bare = is_absent || !strcmp(argv[1], "bare"), count = atoi(argv[2]);
    if (is_absent && open_withholding()) return 9;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (long number = 1; number <= count; number++) {
        pthread_t thread;
        uint64_t own[3];
        if (is_bare ? bare(number) < 0 : pthread_create(&thread, &small, of_library, (void *)number)) return 3;
        if (read(started[0], own, sizeof own) != sizeof own) return 4;
        if (is_absent && withhold(storage, STORAGE)) return 5;
        printf("%lu %lu %lu\n", (unsigned long)own[0], (unsigned long)own[1], (unsigned long)own[2]);
    }
    puts("ready");
    fflush(stdout);
    for (char byte;;) {
        ssize_t got = read(0, &byte, 1);
        if (got == 1) say("done\n", 5);
        if (got == 0 || (got < 0 && errno != EINTR)) return 0;
    }
}
