/* Runs for 100 ms, reads a byte, runs for 300 ms more, and executes a program, in its first thread or in another one, which then runs
   for 300 ms: `executes first|other PROGRAM`, where PROGRAM is a copy of this one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *program;

/* Runs for so many milliseconds of the CPU time of this thread. */
static void burn(long ms) {
    struct timespec now, begin;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do {
        for (volatile int i = 0; i < 2000; i++) {}
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

static void *leave(void *nothing) {
    burn(300);
    execl(program, program, (char *)NULL);
    _exit(3);
    return nothing;
}

int main(int count, char **arguments) {
    char byte;
    if (count < 3) {
        burn(300);
        return 0;
    }
    burn(100);
    if (read(0, &byte, 1) < 0) return 3;
    program = arguments[2];
    if (strcmp(arguments[1], "first") == 0) leave(NULL);
    pthread_t other;
    if (pthread_create(&other, NULL, leave, NULL)) return 3;
    pthread_join(other, NULL);
    return 3;
}
