/* `attack_layout PROGRAM OTHER [DEBUG]`: maps PROGRAM, and shows a copy of OTHER to whoever looks into this process's root, in a
 * mount namespace of an ordinary user: in the place of PROGRAM, with the same inode number, or as DEBUG, a file below
 * /usr/lib/debug. Prints `ready`, and ends with its input. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0) perror(path);
    close(fd);
}

static int copy(int from, int to) {
    char bytes[1 << 14];
    for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;) if (write(to, bytes, got) != got) return 4;
    return 0;
}

/* A tmpfs numbers its inodes one after the other. */
static int replace(const char *path, ino_t number, int other) {
    char directory[4096];
    struct stat made;
    snprintf(directory, sizeof directory, "%s", path);
    if (mount("tmpfs", dirname(directory), "tmpfs", 0, "mode=755")) return 77;
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0755);
        if (fd < 0 || fstat(fd, &made) || made.st_ino > number) return 77;
        if (made.st_ino == number) return copy(other, fd);
        unlink(path);
        close(fd);
    }
}

static int add_debug(char *path, int other) {
    if (mount("tmpfs", "/usr/lib", "tmpfs", 0, "mode=755")) return 77;
    for (char *end = path + strlen("/usr/lib/"); (end = strchr(end, '/')); end++) {
        *end = 0;
        mkdir(path, 0755);
        *end = '/';
    }
    return copy(other, open(path, O_WRONLY | O_CREAT | O_EXCL, 0644));
}

int main(int argc, char **argv) {
    char users[64], groups[64], byte;
    struct stat wanted;
    if (argc < 3) return 2;
    int program = open(argv[1], O_RDONLY), other = open(argv[2], O_RDONLY);
    if (program < 0 || other < 0 || fstat(program, &wanted)) return 3;
    if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, program, 0) == MAP_FAILED) return 3;
    snprintf(users, sizeof users, "0 %d 1", (int)getuid());
    snprintf(groups, sizeof groups, "0 %d 1", (int)getgid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) return 77;
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", users);
    put("/proc/self/gid_map", groups);
    int failed = argc > 3 ? add_debug(argv[3], other) : replace(argv[1], wanted.st_ino, other);
    if (failed) return failed;
    if (write(1, "ready\n", 6) != 6) return 4;
    return read(0, &byte, 1) < 0;
}
