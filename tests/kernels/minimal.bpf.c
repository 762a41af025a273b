/* The smallest scheduler that sched_ext takes: no callbacks, so that the kernel's own defaults run
 * every thread from one queue. Members of struct_ops are matched by name with the kernel's types. */
struct sched_ext_ops {
    char name[128];
};

__attribute__((section(".struct_ops.link"), used)) struct sched_ext_ops minimal = {
    .name = "minimal",
};
