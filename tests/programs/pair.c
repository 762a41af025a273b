/* Two processes that take turns for so many seconds: each computes for some 20 microseconds, wakes the other and waits for it. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int count, char **arguments) {
    long end = nanoseconds() + 1000000000L * (count > 1 ? atol(arguments[1]) : 1);
    int there[2], back[2];
    char turn = 0;
    if (pipe(there) || pipe(back)) return 1;
    int is_other = fork() == 0;
    prctl(PR_SET_NAME, is_other ? "pair-other" : "pair-one");
    int from = is_other ? there[0] : back[0], to = is_other ? back[1] : there[1];
    close(is_other ? there[1] : back[1]);
    if (!is_other && write(to, &turn, 1) != 1) return 1;
    while (nanoseconds() < end && read(from, &turn, 1) == 1) {
        for (long begin = nanoseconds(); nanoseconds() < begin + 20000;) continue;
        if (write(to, &turn, 1) != 1) break;
    }
    return 0;
}
