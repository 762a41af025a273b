/* So many threads, one after the other, that exit at once. */
#include <pthread.h>
#include <stdlib.h>

static void *body(void *nothing) {
    return nothing;
}

int main(int count, char **arguments) {
    for (long left = count > 1 ? atol(arguments[1]) : 0; left > 0; left--) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, body, NULL) || pthread_join(thread, NULL)) return 1;
    }
    return 0;
}
