/* Executes a program and measures it: `measure SECONDS PROGRAM ARGUMENT…` ends it after so many seconds, and prints its
 * exit status (negative for a signal), its largest resident memory in KiB, its CPU time in microseconds and the number of
 * bytes that it printed. A process of its own, because a child inherits the peak of the process that started it
 * (`setmax_mm_hiwater_rss` of fs/exec.c), and test programs are large. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void late(int signal) {
    (void)signal;
    kill(child, SIGKILL);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    static char buffer[1 << 16];
    int parent = getpid(), printed[2];
    if (pipe2(printed, O_CLOEXEC)) return 1;
    child = fork();
    if (child == 0) {
        int empty = open("/dev/null", O_RDONLY);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        rlim_t seconds = (rlim_t)atoi(arguments[1]);
        setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
        if (getppid() != parent || empty < 0 || dup2(empty, 0) < 0 || dup2(printed[1], 1) < 0) _exit(125);
        execv(arguments[2], arguments + 2);
        _exit(127);
    }
    close(printed[1]);
    struct sigaction action = {.sa_handler = late, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    /* A busy host gives a small part of its time. */
    alarm(30 * (unsigned)atoi(arguments[1]));
    long long bytes = 0;
    for (ssize_t got; (got = read(printed[0], buffer, sizeof buffer)) > 0;) bytes += got;
    int status;
    struct rusage used;
    while (wait4(child, &status, 0, &used) != child) {}
    long long cpu = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000LL + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    printf("%d %ld %lld %lld\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), used.ru_maxrss, cpu, bytes);
    return 0;
}
