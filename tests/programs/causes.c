/* causes SECONDS: processes that each wait for another cause, by their names. What feeds them has the name `feeder`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MS = 20 };
static const struct timespec PAUSE = {0, PAUSE_MS * 1000000};
static unsigned seconds;

static void rest(void) { nanosleep(&PAUSE, NULL); }

/* A process that ends with its cause. */
static pid_t feeder(void) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, "feeder");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(seconds);
    }
    return child;
}

static void threads(int count, void *(*body)(void *)) {
    pthread_t thread;
    while (count-- > 0) pthread_create(&thread, NULL, body, NULL);
    pause();
}

static void slept(void) { for (;;) rest(); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *hold(void *nothing) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        rest();
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
    return nothing;
}
static void locked(void) { threads(4, hold); }

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static void *expect(void *nothing) {
    pthread_mutex_lock(&mutex);
    for (;;) pthread_cond_wait(&condition, &mutex);
    return nothing;
}
static void signalled(void) {
    pthread_t thread;
    for (int count = 0; count < 3; count++) pthread_create(&thread, NULL, expect, NULL);
    for (;;) { rest(); pthread_cond_broadcast(&condition); }
}

static void piped(void) {
    int ends[2];
    char byte = 0;
    if (pipe(ends)) return;
    if (feeder() == 0) for (;;) { rest(); if (write(ends[1], &byte, 1) != 1) _exit(1); }
    while (read(ends[0], &byte, 1) == 1) continue;
}

static void received(void) {
    int ends[2];
    char byte = 0;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) return;
    if (feeder() == 0) for (;;) { rest(); send(ends[1], &byte, 1, 0); }
    while (recv(ends[0], &byte, 1, 0) == 1) continue;
}

static void accepted(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "ctprof-%d", getpid());
    if (bind(server, (void *)&address, sizeof address) || listen(server, 1)) return;
    if (feeder() == 0) for (;;) {
        rest();
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(client, (void *)&address, sizeof address)) _exit(1);
        close(client);
    }
    for (;;) close(accept(server, NULL, NULL));
}

static void epolled(void) {
    struct epoll_event event;
    for (int poller = epoll_create1(0);;) epoll_wait(poller, &event, 1, PAUSE_MS);
}
static void polled(void) { for (;;) poll(NULL, 0, PAUSE_MS); }
static void selected(void) {
    for (;;) {
        struct timeval time = {0, PAUSE_MS * 1000};
        select(0, NULL, NULL, NULL, &time);
    }
}
static void reaped(void) {
    for (;;) {
        if (feeder() == 0) { rest(); _exit(0); }
        wait(NULL);
    }
}
static void vforked(void) {
    for (;;) {
        if (vfork() == 0) {
            syscall(SYS_prctl, PR_SET_NAME, "feeder");
            syscall(SYS_nanosleep, &PAUSE, NULL);
            _exit(0);
        }
        wait(NULL);
    }
}

static int file(const char *name, int flags) { return open(name, O_CREAT | O_RDWR | flags, 0600); }
static char block[4096];
static void synced(void) { for (int to = file("synced", 0);;) if (pwrite(to, block, sizeof block, 0) < 0 || fsync(to)) return; }
static void datasynced(void) { for (int to = file("datasynced", 0);;) if (pwrite(to, block, sizeof block, 0) < 0 || fdatasync(to)) return; }
static void through(void) { for (int to = file("through", O_DSYNC);;) if (pwrite(to, block, sizeof block, 0) < 0) return; }

static void flocked(void) {
    if (feeder() == 0) for (int own = file("flocked", 0);;) { flock(own, LOCK_EX); rest(); flock(own, LOCK_UN); usleep(100); }
    for (int own = file("flocked", 0);;) { flock(own, LOCK_EX); flock(own, LOCK_UN); usleep(200); }
}
static void regions(void) {
    struct flock all = {.l_type = F_WRLCK}, none = {.l_type = F_UNLCK};
    int own = file("regions", 0);
    if (feeder() == 0) for (;;) { fcntl(own, F_SETLKW, &all); rest(); fcntl(own, F_SETLK, &none); usleep(100); }
    for (;;) { fcntl(own, F_SETLKW, &all); fcntl(own, F_SETLK, &none); usleep(200); }
}

static void awaited(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    for (;;) sigtimedwait(&signals, NULL, &PAUSE);
}
static void semaphore(void) {
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf take = {0, -1, 0};
    for (int count = 0; count < (int)seconds * 1000 / PAUSE_MS - 50; count++) semtimedop(set, &take, 1, &PAUSE);
    semctl(set, 0, IPC_RMID);
}
static void messages(void) {
    struct { long type; char text[1]; } message = {1, {0}};
    int queue = msgget(IPC_PRIVATE, 0600);
    if (feeder() == 0) {
        for (int count = 0; count < (int)seconds * 1000 / PAUSE_MS - 50; count++) { rest(); msgsnd(queue, &message, 1, 0); }
        msgctl(queue, IPC_RMID, NULL);
        _exit(0);
    }
    while (msgrcv(queue, &message, 1, 0, 0) == 1) continue;
}
static void timed(void) {
    struct itimerspec often = {PAUSE, PAUSE};
    long times;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(timer, 0, &often, NULL);
    while (read(timer, &times, sizeof times) > 0) continue;
}
static void asynchronous(void) {
    aio_context_t context = 0;
    struct io_event event;
    struct timespec pause = PAUSE;
    if (syscall(SYS_io_setup, 1, &context)) return;
    for (;;) syscall(SYS_io_getevents, context, 1, 1, &event, &pause);
}
static void stopped(void) {
    pid_t own = getpid();
    if (feeder() == 0) {
        /* A stopped process has no alarm. */
        alarm(0);
        for (int count = 0; count < (int)seconds * 1000 / PAUSE_MS; count++) { rest(); kill(own, SIGCONT); }
        kill(own, SIGKILL);
        _exit(0);
    }
    for (;;) raise(SIGSTOP);
}

static void traced(void) {
    pid_t tracee = fork();
    if (tracee == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        for (;;) raise(SIGSTOP);
    }
    prctl(PR_SET_NAME, "tracer");
    while (waitpid(tracee, NULL, 0) == tracee) { rest(); ptrace(PTRACE_CONT, tracee, NULL, NULL); }
}

static void spin(void) { for (;;) continue; }
static void *spinning(void *nothing) { spin(); return nothing; }
static void pinned(void) {
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
    threads(4, spinning);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*cause)(void); } CAUSES[] = {
        {"slept", slept}, {"locked", locked}, {"signalled", signalled}, {"piped", piped}, {"received", received},
        {"accepted", accepted}, {"epolled", epolled}, {"polled", polled}, {"selected", selected}, {"reaped", reaped},
        {"vforked", vforked}, {"synced", synced}, {"datasynced", datasynced}, {"through", through}, {"flocked", flocked},
        {"regions", regions}, {"awaited", awaited}, {"semaphore", semaphore}, {"messages", messages}, {"timed", timed},
        {"asynchronous", asynchronous}, {"stopped", stopped}, {"traced", traced},
        {"spin", spin}, {"pinned", pinned},
    };
    seconds = count > 1 ? atoi(arguments[1]) : 1;
    for (unsigned each = 0; each < sizeof CAUSES / sizeof *CAUSES; each++) {
        if (fork() == 0) {
            char name[16];
            snprintf(name, sizeof name, "for-%s", CAUSES[each].name);
            prctl(PR_SET_NAME, name);
            alarm(seconds);
            CAUSES[each].cause();
            return 1;
        }
    }
    while (wait(NULL) > 0) continue;
    return 0;
}
