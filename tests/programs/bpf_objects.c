/* Prints the id and name of every BPF program, map and link of the kernel. Exits with 1 if the kernel denies it. */
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static void print(const char *kind, uint32_t id, int open)
{
    union { struct bpf_prog_info program; struct bpf_map_info map; } info = { 0 };
    union bpf_attr attributes = { .prog_id = id };
    int fd = bpf(open, &attributes);
    memset(&attributes, 0, sizeof attributes);
    attributes.info.bpf_fd = (uint32_t)fd;
    attributes.info.info_len = open == BPF_PROG_GET_FD_BY_ID ? sizeof info.program : sizeof info.map;
    attributes.info.info = (uint64_t)(uintptr_t)&info;
    int has_name = fd >= 0 && open != BPF_LINK_GET_FD_BY_ID && bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes) == 0;
    const char *name = open == BPF_PROG_GET_FD_BY_ID ? info.program.name : info.map.name;
    printf("%s_id %u %s\n", kind, id, has_name ? name : "");
    close(fd);
}

int main(void)
{
    static const struct { const char *kind; int next, open; } KINDS[] = {
        { "prog", BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID },
        { "map", BPF_MAP_GET_NEXT_ID, BPF_MAP_GET_FD_BY_ID },
        { "link", BPF_LINK_GET_NEXT_ID, BPF_LINK_GET_FD_BY_ID },
    };
    for (unsigned kind = 0; kind < sizeof KINDS / sizeof *KINDS; kind++) {
        union bpf_attr attributes = { 0 };
        for (uint32_t id = 0;; id = attributes.next_id) {
            memset(&attributes, 0, sizeof attributes);
            attributes.start_id = id;
            if (bpf(KINDS[kind].next, &attributes))
                break;
            print(KINDS[kind].kind, attributes.next_id, KINDS[kind].open);
        }
    }
    union bpf_attr first = { 0 };
    return bpf(BPF_PROG_GET_NEXT_ID, &first) && errno == EPERM;
}
