/* Threads with data of jemalloc's kind that wait for events, and say when a wait is interrupted.
 *
 * `attack_threads KIND COUNT`: threads of the C library (`pthread`), or such that it does not know and whose thread-local
 * storage is of their own making (`bare`). Prints `tid allocated deallocated` of each, then `ready`. Prints `interrupted`
 * whenever a wait is interrupted, and `done` for every byte of its input. Ends with its input. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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

static int bare(long number) {
    char *memory = mmap(NULL, STACK + STORAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    /* Blocks of programs are below the thread pointer of x86-64, and above that of arm64. */
    uintptr_t *pointer = (uintptr_t *)(memory + STACK + STORAGE / 2);
    pointer[0] = pointer[2] = (uintptr_t)pointer;
    int shared = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
    return clone(wait_for_events, memory + STACK, shared, (void *)number, NULL, pointer, NULL);
}

int main(int argc, char **argv) {
    if (argc != 3 || pipe(started)) return 2;
    int is_bare = !strcmp(argv[1], "bare"), count = atoi(argv[2]);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (long number = 1; number <= count; number++) {
        pthread_t thread;
        uint64_t own[3];
        if (is_bare ? bare(number) < 0 : pthread_create(&thread, &small, of_library, (void *)number)) return 3;
        if (read(started[0], own, sizeof own) != sizeof own) return 4;
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
