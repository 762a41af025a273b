// Threads that sleep again and again, each in other functions. The compiler leaves out frame pointers. With an argument, the
// stack of one more thread goes on in pages that nobody fills (userfaultfd), and another one's without end. With two, only the
// main thread does something: it sleeps or runs, as the first one says, in two functions, whose nanoseconds it writes to a file.
// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef NAP
#define NAP nap
#endif

static volatile unsigned long sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

__attribute__((noinline)) static void NAP(void) {
    struct timespec time = {0, 40000000};
    nanosleep(&time, NULL);
    sink++;
}

__attribute__((noinline)) static void deep(int depth) {
    if (depth > 0) deep(depth - 1); else NAP();
    sink++;
}

// The size of the frame is known only while it runs.
__attribute__((noinline)) static void wide(int bytes) {
    volatile char *room = alloca(bytes);
    room[0] = 1;
    NAP();
    sink += room[0];
}

__attribute__((noinline)) static void wait_for_signal(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec = (until.tv_nsec + 40000000) % 1000000000;
    pthread_mutex_lock(&lock);
    pthread_cond_timedwait(&never, &lock, &until);
    pthread_mutex_unlock(&lock);
    sink++;
}

static void handler(int number) { NAP(); sink += number; }

__attribute__((noinline)) static void interrupted(void) { raise(SIGUSR1); sink++; }

__attribute__((noinline)) static void owner(void) { pthread_mutex_lock(&lock); NAP(); pthread_mutex_unlock(&lock); NAP(); sink++; }

static void *run(void *name) {
    prctl(PR_SET_NAME, name);
    for (unsigned turn = 0;; turn++) {
        if (!strcmp(name, "deep")) deep(30);
        else if (!strcmp(name, "wide")) wide(100 + turn % 5000);
        else if (!strcmp(name, "condition")) wait_for_signal();
        else if (!strcmp(name, "handler")) interrupted();
        else owner();
    }
}

// The stack pointer is below a page that is registered and missing.
static void *withheld(void *name) {
    prctl(PR_SET_NAME, name);
    char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 1, 2 * 4096);
    int file = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    ioctl(file, UFFDIO_API, &api);
    struct uffdio_register missing = {.range = {(long)pages + 2 * 4096, 2 * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (file < 0 || ioctl(file, UFFDIO_REGISTER, &missing)) return NULL;
#ifdef __x86_64__
    static struct timespec time = {0, 40000000};
    __asm__ volatile("mov %0, %%rsp; 1: mov %1, %%rdi; xor %%esi, %%esi; mov $35, %%eax; syscall; jmp 1b"
                     :: "r"(pages + 2 * 4096 - 512), "r"(&time) : "rax", "rcx", "rdi", "rsi", "r11", "memory");
#endif
    return NULL;
}

#ifdef __x86_64__
// The rule of this function says that a signal interrupted itself, without end.
__asm__(".text\n.type cyclic, @function\ncyclic: .cfi_startproc\n.cfi_signal_frame\n.cfi_def_cfa rsp, 0\n"
        ".cfi_escape 0x16, 16, 2, 0x80, 0\n"
        "1: lea period(%rip), %rdi; xor %esi, %esi; mov $35, %eax; syscall; jmp 1b\n.cfi_endproc\n.size cyclic, . - cyclic\n"
        ".data\nperiod: .quad 0, 40000000\n.text\n");
void *cyclic(void *);
static void *run_cyclic(void *name) { prctl(PR_SET_NAME, name); return cyclic(name); }
#endif

__attribute__((noinline)) static void longer(void) { NAP(); NAP(); sink++; }

__attribute__((noinline)) static void shorter(void) { NAP(); sink++; }

__attribute__((noinline)) static void count_longer(void) { for (int i = 0; i < 20000000; i++) sink++; }

__attribute__((noinline)) static void count_shorter(void) { for (int i = 0; i < 10000000; i++) sink++; }

// Whoever runs waits for a CPU between, which is in neither function.
static long long now(int sleeps) {
    struct timespec time;
    clock_gettime(sleeps ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int work_in_two(const char *path, int sleeps) {
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    long long times[2] = {0, 0};
    for (;;) {
        long long start = now(sleeps);
        if (sleeps) longer(); else count_longer();
        long long middle = now(sleeps);
        if (sleeps) shorter(); else count_shorter();
        times[0] += middle - start;
        times[1] += now(sleeps) - middle;
        if (pwrite(file, times, sizeof times, 0) != sizeof times) return 1;
        puts("ready");
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    signal(SIGUSR1, handler);
    if (count > 2) return work_in_two(arguments[2], !strcmp(arguments[1], "sleeps"));
    static const char *names[] = {"deep", "wide", "condition", "handler", "owner"};
    pthread_t thread;
    for (int i = 0; i < 5; i++) pthread_create(&thread, NULL, run, (void *)names[i]);
    if (count > 1) pthread_create(&thread, NULL, withheld, arguments[1]);
#ifdef __x86_64__
    if (count > 1) pthread_create(&thread, NULL, run_cyclic, "cyclic");
#endif
    puts("ready");
    fflush(stdout);
    for (;;) NAP();
}
