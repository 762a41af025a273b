/* A program, or a library with one, that has what the probe looks for of jemalloc and nothing else:
 * thread-specific data of its kind, with numbers that nobody else could have put there. Threads say
 * theirs, `tid allocated deallocated` a line, then `ready`.
 *
 * -DPREFIX=je_ names the symbol je_tsd_tls; -DMEMBER(name)=... the members.
 * With -DVFORK the first thread then waits uninterruptibly for a child, and has no list of robust locks, like one that
 * glibc has not started. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PREFIX
#define PREFIX
#endif
#ifndef MEMBER
#define MEMBER(name) name
#endif
#define GLUE2(a, b) a##b
#define GLUE(a, b) GLUE2(a, b)
#define TSD GLUE(PREFIX, tsd_tls)

struct tsd_s {
    char before[40];
    uint64_t MEMBER(thread_deallocated);
    uint32_t between[3];
    uint64_t MEMBER(thread_allocated);
    char after[24];
};

static __thread struct tsd_s TSD __attribute__((used, tls_model("initial-exec")));
__thread volatile char others[100];

void fake_report(long number) {
    char line[96];
    TSD.MEMBER(thread_allocated) = 1000000 + number;
    TSD.MEMBER(thread_deallocated) = 2000000 + number;
    others[number] = 1;
    int length = snprintf(line, sizeof line, "%ld %ld %ld\n", syscall(SYS_gettid), 1000000 + number, 2000000 + number);
    if (write(1, line, length) != length) abort();
}

#ifndef LIBRARY
static pthread_barrier_t barrier;

static void *body(void *number) {
    fake_report((long)number);
    pthread_barrier_wait(&barrier);
    for (;;) pause();
}

int main(void) {
    char byte;
    pthread_barrier_init(&barrier, NULL, 4);
    for (long number = 1; number <= 3; number++) {
        pthread_t thread;
        pthread_create(&thread, NULL, body, (void *)number);
    }
    pthread_barrier_wait(&barrier);
    fake_report(7);
    if (write(1, "ready\n", 6) != 6) abort();
#ifdef VFORK
    if (syscall(SYS_set_robust_list, NULL, 24)) abort();
    /* Standard input ends the child, and only then the wait. */
    if (vfork() == 0) _exit(read(0, &byte, 1) < 0);
    return 0;
#endif
    return read(0, &byte, 1) < 0;
}
#endif
