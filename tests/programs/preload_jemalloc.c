/* Threads that allocate known amounts through whatever malloc they are given, and say what that
 * malloc counts for them: `tid allocated deallocated` a line, then `ready`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static pthread_barrier_t barrier;

static uint64_t counter(const char *name) {
    uint64_t value = 0;
    size_t size = sizeof value;
    mallctl(name, &value, &size, NULL, 0);
    return value;
}

static void report(void) {
    char line[96];
    uint64_t allocated = counter("thread.allocated"), deallocated = counter("thread.deallocated");
    int length = snprintf(line, sizeof line, "%ld %lu %lu\n", syscall(SYS_gettid), allocated, deallocated);
    if (write(1, line, length) != length) abort();
}

static void *body(void *number) {
    size_t size = (size_t)number << 16;
    for (int i = 0; i < 10; i++) memset(malloc(size), 1, size);
    free(malloc(1 << 20));
    report();
    pthread_barrier_wait(&barrier);
    for (;;) pause();
}

int main(void) {
    char byte;
    if (!mallctl) return 77;
    pthread_barrier_init(&barrier, NULL, 4);
    for (long number = 1; number <= 3; number++) {
        pthread_t thread;
        pthread_create(&thread, NULL, body, (void *)number);
    }
    pthread_barrier_wait(&barrier);
    report();
    if (write(1, "ready\n", 6) != 6) abort();
    return read(0, &byte, 1) < 0;
}
