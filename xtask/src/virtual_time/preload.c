/* A preloaded library for User Mode Linux.
 *
 * On processors with AMX the XSAVE area of a process has 11,008 bytes, and
 * PTRACE_SETREGSET(NT_X86_XSTATE) refuses a shorter one with EFAULT. User Mode Linux (up to 6.15)
 * keeps 2,696 bytes for it, so its first process dies. The wrapper of ptrace() completes a short
 * area with the traced process's own state: the missing part is AMX state, which no program in a
 * guest uses.
 *
 * The guest seeds its random numbers with getrandom() and /dev/random of the host. Here they follow
 * from the text of GUEST_SEED, so that netem drops the same packets whenever the same guest runs.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char area[1 << 16] __attribute__((aligned(64)));
static size_t area_bytes;

/* Fills the buffer by xorshift64. */
ssize_t getrandom(void *buffer, size_t bytes, unsigned int flags)
{
	static uint64_t state;
	(void)flags;

	if (!state) {
		const char *seed = getenv("GUEST_SEED");
		state = 0x9e3779b97f4a7c15;
		while (seed && *seed)
			state = (state ^ (unsigned char)*seed++) * 0x100000001b3;
		state |= 1;
	}
	for (size_t i = 0; i < bytes; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		((unsigned char *)buffer)[i] = state >> 32;
	}
	return bytes;
}

int open64(const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	int mode = va_arg(arguments, int);
	va_end(arguments);

	if (!strcmp(path, "/dev/random"))
		path = "/dev/zero";
	return syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

static long set_xsave_area(pid_t pid, const struct iovec *given)
{
	struct iovec whole = { area, sizeof area };

	if (!area_bytes) {
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &whole) < 0)
			return -1;
		area_bytes = whole.iov_len;
		memset(area, 0, sizeof area);
	}
	if (given->iov_len >= area_bytes)
		return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, given);
	memcpy(area, given->iov_base, given->iov_len);
	whole.iov_len = area_bytes;
	return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE)
		return set_xsave_area(pid, data);
	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
		/* The system call stores the word; the C library returns it. */
		long word;
		long outcome = syscall(SYS_ptrace, request, pid, address, &word);
		if (outcome < 0)
			return outcome;
		errno = 0;
		return word;
	}
	return syscall(SYS_ptrace, request, pid, address, data);
}
