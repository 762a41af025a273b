/* Loads the library in its first argument after 1.5 s of short sleeps, and calls its function `late_wait`, which sleeps on. With
 * LIBRARY defined, it is that library. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#ifdef LIBRARY
void late_wait(void) {
    for (;;)
        usleep(20000);
}
#else
int main(int count, char **arguments) {
    puts("ready");
    fflush(stdout);
    for (int sleeps = 0; sleeps < 75; sleeps++)
        usleep(20000);
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    void (*late_wait)(void) = library ? (void (*)(void))dlsym(library, "late_wait") : NULL;
    if (!late_wait)
        return 1;
    late_wait();
    return 0;
}
#endif
