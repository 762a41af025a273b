/* Threads that confuse observers: `threads exec PROGRAM ARG...` computes for 300 ms in a second thread, which
 * then executes the program after a line of input; `threads exit` exits the first thread after a line of input,
 * and a second one computes until it is killed; `threads rename` renames the first thread after a line of input,
 * while a second one sleeps. All print `ready` before they read. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static char **program;

static void compute(double seconds)
{
	struct timespec now;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
}

static void wait_for_line(void)
{
	char byte;
	if (write(1, "ready\n", 6) == 6)
		while (read(0, &byte, 1) == 1 && byte != '\n')
			;
}

static void *executes(void *unused)
{
	compute(0.3);
	wait_for_line();
	execv(program[0], program);
	return unused;
}

static void *computes(void *unused)
{
	compute(1e9);
	return unused;
}

static void *sleeps(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc > 2 && !strcmp(argv[1], "exec")) {
		program = argv + 2;
		pthread_create(&thread, NULL, executes, NULL);
		for (;;)
			pause();
	}
	if (argc > 1 && !strcmp(argv[1], "rename")) {
		pthread_create(&thread, NULL, sleeps, NULL);
		wait_for_line();
		prctl(PR_SET_NAME, "renamed", 0, 0, 0);
		sleeps(NULL);
	}
	wait_for_line();
	pthread_create(&thread, NULL, computes, NULL);
	pthread_exit(NULL);
}
