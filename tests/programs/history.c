/* Threads with a history, at rest: `history COPIES FILE [CGROUP...]` enters the cgroups (directories) and starts so many
 * threads of each kind, which work on FILE (a file or a disk). It prints `ready` when all have come to rest, and exits at
 * the end of standard input. Before, it prints `absent NAME: REASON` for each thread that could not do what its name says. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define MIB (1L << 20)
#define TMPFS_MAGIC 0x01021994
/* A thread that waits for what does not happen gives up after so many seconds. */
#define PATIENCE 5.0

static const char *file;
static cpu_set_t allowed;
static int first_cpu;
static atomic_int resting, preempted;
/* Number of the calling thread in its process. */
static __thread long number;

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static struct rusage own_usage(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage;
}

static const char *failed(int status)
{
    return status ? strerror(errno) : NULL;
}

static int pin(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one);
}

/* Each thread has its own MiB of the file. */
static int open_own(int flags, void **memory)
{
    int opened = open(file, flags | O_RDWR | O_CREAT, 0600);
    *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(*memory, 7, MIB);
    if (opened >= 0 && (pwrite(opened, *memory, MIB, number * MIB) != MIB || fsync(opened)))
        return -1;
    return opened;
}

static const char *writes(void)
{
    void *memory;
    if (open_own(0, &memory) < 0)
        return strerror(errno);
    return own_usage().ru_oublock ? NULL : "the file is not on a disk";
}

static const char *reads(void)
{
    void *memory;
    int opened = open_own(O_DIRECT, &memory);
    if (opened < 0 || pread(opened, memory, MIB, number * MIB) != MIB)
        return strerror(errno);
    return own_usage().ru_inblock ? NULL : "the file is not on a disk";
}

/* What is truncated is not written. */
static const char *truncates(void)
{
    struct statfs kind;
    char path[4096];
    void *memory = calloc(1, MIB);
    snprintf(path, sizeof path, "%s.%d.%ld", file, getpid(), number);
    int opened = open(path, O_RDWR | O_CREAT, 0600);
    if (opened < 0 || write(opened, memory, MIB) != MIB || ftruncate(opened, 0) || unlink(path) || fstatfs(opened, &kind))
        return strerror(errno);
    return kind.f_type == TMPFS_MAGIC ? "the file is not on a disk" : NULL;
}

static const char *faults(void)
{
    char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 3; round++) {
        memset(memory, (int)number, MIB);
        madvise(memory, MIB, MADV_DONTNEED);
    }
    return NULL;
}

static const char *major_faults(void)
{
    void *written;
    int opened = open_own(0, &written);
    if (opened < 0)
        return strerror(errno);
    posix_fadvise(opened, number * MIB, MIB, POSIX_FADV_DONTNEED);
    volatile char *memory = mmap(NULL, MIB, PROT_READ, MAP_SHARED, opened, number * MIB);
    if (memory == MAP_FAILED)
        return strerror(errno);
    madvise((void *)memory, MIB, MADV_RANDOM);
    for (long byte = 0; byte < MIB; byte += MIB / 16)
        (void)memory[byte];
    return own_usage().ru_majflt ? NULL : "the file stays in memory";
}

/* A page that was only read is the page of zeros, and is copied when it is written. */
static const char *copies_on_write(void)
{
    volatile char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)memory, MIB, MADV_NOHUGEPAGE);
    for (long byte = 0; byte < MIB; byte += 4096)
        memory[byte] = (char)(memory[byte] + number);
    return NULL;
}

/* The first thread competes for the same CPU. */
static const char *is_preempted(void)
{
    double begin = seconds(CLOCK_MONOTONIC);
    pin(first_cpu);
    while (own_usage().ru_nivcsw < 3 && seconds(CLOCK_MONOTONIC) - begin < PATIENCE)
        ;
    preempted++;
    return own_usage().ru_nivcsw ? NULL : "no other thread ran";
}

static const char *computes(void)
{
    /* Reading the clock is kernel time. */
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < 0.03)
        for (volatile int count = 0; count < 1000000; count++)
            ;
    return NULL;
}

static const char *calls(void)
{
    void *memory = malloc(MIB);
    int zeros = open("/dev/zero", O_RDONLY);
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < 0.03)
        if (read(zeros, memory, MIB) != MIB)
            return strerror(errno);
    return NULL;
}

static const char *sleeps(void)
{
    struct timespec time = { .tv_nsec = 100000 };
    for (int round = 0; round < 30; round++)
        nanosleep(&time, NULL);
    return NULL;
}

static const char *migrates(void)
{
    for (int round = 0; round < 10; round++)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &allowed))
                pin(cpu);
    sched_setaffinity(0, sizeof allowed, &allowed);
    return CPU_COUNT(&allowed) > 1 ? NULL : "one CPU";
}

static const char *is_pinned(void)
{
    return failed(pin(first_cpu));
}

static const char *is_niced(void)
{
    return failed(setpriority(PRIO_PROCESS, 0, 7));
}

static const char *is_favoured(void)
{
    return failed(setpriority(PRIO_PROCESS, 0, -5));
}

static const char *has_policy(int policy, int priority)
{
    struct sched_param param = { .sched_priority = priority };
    return failed(sched_setscheduler(0, policy, &param));
}

static const char *is_batch(void)
{
    return has_policy(SCHED_BATCH, 0);
}

static const char *is_idle(void)
{
    return has_policy(SCHED_IDLE, 0);
}

static const char *is_fifo(void)
{
    return has_policy(SCHED_FIFO, 10 + (int)(number % 50));
}

static const char *is_round_robin(void)
{
    return has_policy(SCHED_RR, 10 + (int)(number % 50));
}

static const char *has_deadline(void)
{
    /* Enough runtime for its exit: a thread that has none left waits for its next periods after its exit record. */
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = { .size = sizeof attributes, .policy = 6, .runtime = 10000000, .deadline = 100000000, .period = 100000000 };
    return failed((int)syscall(SYS_sched_setattr, 0, &attributes, 0));
}

/* A child that computes, faults and reads, and that the process waits for. */
static const char *waits_for_a_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        faults();
        _exit(calls() != NULL);
    }
    return failed(child < 0 || waitpid(child, NULL, 0) != child);
}

static const char *does_nothing(void)
{
    return NULL;
}


static void park(void)
{
    static int nothing;
    if (number % 3 == 0)
        sleep(INT_MAX);
    else if (number % 3 == 1)
        syscall(SYS_futex, &nothing, FUTEX_WAIT, 0, NULL, NULL, 0);
    pause();
}

/* Waits uninterruptibly for a child. */
static void hold_vfork(void)
{
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
}

/* The names are those that are asked for: the kernel cuts them at 15 bytes. */
static const struct kind {
    const char *name;
    const char *(*live)(void);
    void (*rest)(void);
} KINDS[] = {
    { "writes", writes, park },
    { "reads", reads, park },
    { "truncates", truncates, park },
    { "faults", faults, park },
    { "major-faults", major_faults, park },
    { "copies", copies_on_write, park },
    { "preempted", is_preempted, park },
    { "computes", computes, park },
    { "calls", calls, park },
    { "sleeps", sleeps, park },
    { "migrates", migrates, park },
    { "pinned", is_pinned, park },
    { "niced", is_niced, park },
    { "favoured", is_favoured, park },
    { "batch", is_batch, park },
    { "idle", is_idle, park },
    { "fifo", is_fifo, park },
    { "round-robin", is_round_robin, park },
    { "deadline", has_deadline, park },
    { "parent", waits_for_a_child, park },
    { "vfork", does_nothing, hold_vfork },
    { "", does_nothing, park },
    { "a) S 1 \377 (b", does_nothing, park },
    { "two\nlines\\\t", does_nothing, park },
    { "fifteen-bytes-x", does_nothing, park },
    { "more-than-fifteen-bytes", does_nothing, park },
    /* Cut within a character. */
    { "x\u20ac\u20ac\u20ac\u20ac\u20ac", does_nothing, park },
};

static void *thread(void *argument)
{
    number = (long)argument;
    const struct kind *kind = &KINDS[number % LENGTH(KINDS)];
    prctl(PR_SET_NAME, kind->name);
    const char *reason = kind->live();
    if (reason) {
        printf("absent %s: %s\n", kind->name, reason);
        fflush(stdout);
    }
    resting++;
    for (;;)
        kind->rest();
    return NULL;
}

static void start(long count)
{
    pthread_t ignored;
    for (long each = 0; each < count; each++)
        if (pthread_create(&ignored, NULL, thread, (void *)each)) {
            perror("pthread_create");
            exit(1);
        }
}

/* The state letter of a thread: the first one after its name. */
static char state(const char *stat)
{
    char line[512] = "";
    int opened = open(stat, O_RDONLY);
    if (opened >= 0 && read(opened, line, sizeof line - 1) > 0)
        close(opened);
    char *name = strrchr(line, ')');
    return name ? name[2] : '?';
}

static int is_any_running(void)
{
    char path[64];
    DIR *tasks = opendir("/proc/self/task");
    int running = 0;
    for (struct dirent *each; (each = readdir(tasks));) {
        int tid = atoi(each->d_name);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        running |= tid != 0 && tid != getpid() && state(path) == 'R';
    }
    closedir(tasks);
    return running;
}

static void stops(void)
{
    raise(SIGSTOP);
}

static void exits(void)
{
}

/* Exits the first thread of its process only. */
static void exits_alone(void)
{
    start(2);
    pthread_exit(NULL);
}

/* A child of this name and its final state. */
static void child(const char *name, void (*live)(void), char expected)
{
    char path[64];
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        live();
        _exit(0);
    }
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    while (state(path) != expected)
        usleep(1000);
}

static int enter(const char *cgroup)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
    int opened = open(path, O_WRONLY);
    return opened >= 0 && write(opened, "0", 1) == 1 && close(opened) == 0;
}

int main(int argc, char **argv)
{
    char byte;
    long copies = argc > 2 ? atol(argv[1]) : 0;
    if (copies < 1) {
        fprintf(stderr, "usage: history COPIES FILE [CGROUP...]\n");
        return 2;
    }
    file = argv[2];
    for (int each = 3; each < argc; each++)
        if (!enter(argv[each])) {
            perror(argv[each]);
            return 1;
        }
    sched_getaffinity(0, sizeof allowed, &allowed);
    while (!CPU_ISSET(first_cpu, &allowed))
        first_cpu++;
    child("zombie", exits, 'Z');
    child("stopped", stops, 'T');
    child("leaderless", exits_alone, 'Z');

    start(copies * (long)LENGTH(KINDS));
    pin(first_cpu);
    while (preempted < copies)
        ;
    sched_setaffinity(0, sizeof allowed, &allowed);
    while (resting < copies * (long)LENGTH(KINDS) || is_any_running())
        usleep(1000);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    _exit(0);
}
