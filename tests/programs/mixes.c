/* Processes and threads that come and go in many ways, each for some tenths of a second of CPU time: `mixes NAME [DEPTH]`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *self;

static void die(const char *what) {
    perror(what);
    exit(3);
}

/* Runs for so many milliseconds of the CPU time of this thread. */
static void burn(long ms) {
    struct timespec now, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    end.tv_nsec += ms * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    do {
        for (volatile int i = 0; i < 2000; i++) {}
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static pid_t start(void) {
    pid_t pid = fork();
    if (pid < 0) die("fork");
    return pid;
}

static void reap(void) {
    while (wait(NULL) > 0 || errno == EINTR) {}
}

static void children(int number, long ms) {
    for (int i = 0; i < number; i++) {
        if (start() == 0) {
            burn(ms);
            _exit(0);
        }
        if (i % 4 == 3) reap();
    }
    reap();
}

static void *thread_burn(void *ms) {
    burn((long)ms);
    return NULL;
}

static void *thread_forever(void *nothing) {
    for (;;) burn(1000);
    return nothing;
}

static pthread_t thread(void *(*body)(void *), long argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, (void *)argument)) die("pthread_create");
    return thread;
}

static void threads(int number, long ms, int at_once) {
    pthread_t all[16];
    for (int i = 0; i < number; i++) {
        all[i % at_once] = thread(thread_burn, ms);
        if (i % at_once == at_once - 1)
            for (int j = 0; j < at_once; j++) pthread_join(all[j], NULL);
    }
}

static void again(const char *name, int depth) {
    char number[16];
    snprintf(number, sizeof number, "%d", depth);
    execl(self, name, name, number, (char *)NULL);
    die("execl");
}

static void *thread_again(void *depth) {
    burn(100);
    again("execs-by-others", (int)(long)depth - 1);
    return NULL;
}

/* Makes the next process, or thread, of this namespace have the id. */
static int next_id(pid_t id) {
    int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    char number[16];
    int length = snprintf(number, sizeof number, "%d", id - 1);
    int is_set = file >= 0 && write(file, number, length) == length;
    if (file >= 0) close(file);
    return is_set;
}

static void generations(int depth) {
    do burn(30);
    while (depth-- > 0 && start() == 0);
    _exit(0);
}

static void orphans(int number, long ms) {
    for (int i = 0; i < number; i++) {
        if (start() == 0) {
            if (start() == 0) {
                burn(ms);
                _exit(0);
            }
            burn(2);
            _exit(0);
        }
        reap();
    }
}

static void kill_group(int with_threads) {
    pid_t leader = start();
    if (leader == 0) {
        setpgid(0, 0);
        for (int i = 0; i < 3; i++) with_threads ? (void)thread(thread_forever, 0) : (void)(start() == 0 && thread_forever(NULL));
        thread_forever(NULL);
    }
    setpgid(leader, leader);
    clockid_t clock;
    struct timespec ran = {0, 0};
    if (clock_getcpuclockid(leader, &clock)) die("clock_getcpuclockid");
    while (ran.tv_sec == 0 && ran.tv_nsec < (with_threads ? 300 : 80) * 1000000L) {
        pause_ms(5);
        clock_gettime(clock, &ran);
    }
    kill(-leader, SIGKILL);
    reap();
}

static int in_namespace(void *nothing) {
    (void)nothing;
    for (int i = 0; i < 4; i++) {
        if (start() == 0) {
            if (start() == 0) burn(40);
            burn(40);
            _exit(0);
        }
    }
    burn(60);
    pause_ms(100);
    return 0;
}

static void in_its_namespace(void) {
    static char stack[1 << 16];
    pid_t init = clone(in_namespace, stack + sizeof stack, CLONE_NEWPID | SIGCHLD, NULL);
    if (init < 0) die("clone");
    reap();
}

static int clone_body(void *nothing) {
    (void)nothing;
    burn(20);
    return 0;
}

/* Children of the one that started this process. */
static void siblings(void) {
    if (start() == 0) {
        static char stack[1 << 16];
        for (int i = 0; i < 12; i++) clone(clone_body, stack + sizeof stack, CLONE_PARENT | SIGCHLD, NULL);
        burn(40);
        _exit(0);
    }
    reap();
}

static void spawns(int number) {
    char *arguments[] = {"true", NULL}, *environment[] = {NULL};
    for (int i = 0; i < number; i++) {
        pid_t pid;
        if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment)) die("posix_spawn");
        reap();
    }
}

/* The id of a process that has exited in an earlier tick of 10 ms: those with one id are told apart by their starts. */
static pid_t used_id(void) {
    pid_t id = start();
    if (id == 0) _exit(0);
    reap();
    pause_ms(20);
    return id;
}

static void reuse(void) {
    pid_t id = used_id();
    for (int i = 0; i < 12; i++) {
        if (!next_id(id)) die("ns_last_pid");
        if (start() == 0) {
            burn(25);
            _exit(0);
        }
        reap();
    }
}

static void reuse_of_threads(void) {
    pid_t id = used_id();
    for (int i = 0; i < 12; i++) {
        if (!next_id(id)) die("ns_last_pid");
        pthread_join(thread(thread_burn, 25), NULL);
    }
}

static void shell(const char *script) {
    if (start() == 0) {
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(3);
    }
    reap();
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";
    int depth = count > 2 ? atoi(arguments[2]) : -1;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) die("/proc/self/exe");
    path[length] = 0;
    self = path;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
#define IS(mix) (strcmp(name, mix) == 0)
    if (IS("one")) burn(300);
    else if (IS("forks")) children(100, 3);
    else if (IS("forks-below-a-tick")) children(2000, 0);
    else if (IS("unwaited")) { signal(SIGCHLD, SIG_IGN); children(60, 5); }
    else if (IS("zombies")) { for (int i = 0; i < 10; i++) if (start() == 0) { burn(30); _exit(0); } pause_ms(900); }
    else if (IS("orphans")) orphans(15, 20);
    else if (IS("daemons")) { for (int i = 0; i < 6; i++) if (start() == 0) { setsid(); if (start() == 0) burn(50); _exit(0); } }
    else if (IS("subreaper")) { prctl(PR_SET_CHILD_SUBREAPER, 1); orphans(12, 25); reap(); }
    else if (IS("generations")) generations(10);
    else if (IS("killed-group")) kill_group(0);
    else if (IS("killed-threads")) kill_group(1);
    else if (IS("aborts")) { for (int i = 0; i < 30; i++) if (start() == 0) { burn(10); abort(); } reap(); }
    else if (IS("pool")) { threads(8, 40, 8); pause_ms(400); burn(20); }
    else if (IS("short-threads")) threads(160, 2, 4);
    else if (IS("threads-outlive-first")) { for (int i = 0; i < 4; i++) thread(thread_burn, 70); burn(20); pthread_exit(NULL); }
    else if (IS("threads-at-exit")) { for (int i = 0; i < 4; i++) thread(thread_forever, 0); burn(80); }
    else if (IS("children-of-threads")) { thread(thread_burn, 100); children(8, 25); }
    else if (IS("execs")) { burn(15); if (depth) again("execs", depth < 0 ? 20 : depth - 1); }
    else if (IS("execs-by-others")) {
        burn(60);
        if (depth) { thread(thread_burn, 40); pthread_join(thread(thread_again, depth < 0 ? 2 : depth), NULL); }
    }
    else if (IS("exec-of-other-name")) { burn(150); execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done", (char *)NULL); }
    else if (IS("reused-ids")) reuse();
    else if (IS("reused-thread-ids")) reuse_of_threads();
    else if (IS("namespace")) in_its_namespace();
    else if (IS("siblings")) siblings();
    else if (IS("spawns")) spawns(500);
    else if (IS("scripts")) shell("i=0; while [ $i -lt 60 ]; do sh -c 'j=0; while [ $j -lt 5000 ]; do j=$((j + 1)); done'; i=$((i + 1)); done");
    else if (IS("pipelines")) shell("i=0; while [ $i -lt 40 ]; do seq 20000 | sort | tail -1 >/dev/null; i=$((i + 1)); done");
    else if (IS("turns")) { for (int i = 0; i < 60; i++) { burn(4); pause_ms(6); } }
    else if (IS("periodic")) {
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        for (int i = 0; i < 400; i++) {
            burn(3);
            next.tv_nsec += 10000000L;
            next.tv_sec += next.tv_nsec / 1000000000L;
            next.tv_nsec %= 1000000000L;
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        }
    }
    else if (IS("stopped")) {
        pid_t child = start();
        if (child == 0) { burn(300); _exit(0); }
        for (int i = 0; i < 8; i++) { pause_ms(60); kill(child, i % 2 ? SIGCONT : SIGSTOP); }
        reap();
    }
    else if (IS("nice")) { if (start() == 0) { setpriority(PRIO_PROCESS, 0, 19); burn(150); _exit(0); } burn(150); reap(); }
    else { fprintf(stderr, "no mix %s\n", name); return 2; }
    return 0;
}
