/* Sleeps for 20 ms, again and again, without a C library: by int $0x80, or with -DSYSCALL by the instruction of 64-bit programs.
   All registers and addresses of arguments are short, so that they do not say which one it is. */
static long timespec_of_64_bits[2] = {0, 20000000};
static int timespec_of_32_bits[2] = {0, 20000000};

void _start(void) {
    for (;;) {
#ifdef SYSCALL
        register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0, sixth __asm__("r9") = 0;
        long result;
        __asm__ volatile("syscall" : "=a"(result)
            : "a"(35), "D"(timespec_of_64_bits), "S"(0), "d"(0), "r"(fourth), "r"(fifth), "r"(sixth) : "rcx", "r11", "memory");
#else
        int result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(162), "b"(timespec_of_32_bits), "c"(0), "d"(0) : "memory");
#endif
        (void)timespec_of_64_bits, (void)timespec_of_32_bits;
    }
}
