// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The init of a container in which tfm is the first process. The kernel gives
// the first process of a PID namespace no signal that it has no handler for:
// a program there could not be ended by SIGTERM until it has set one.
//
//   tfm-init PID
//
// It passes signals on to its child PID, reaps what others leave behind, and
// ends as that child does, with 128 and the signal's number after a signal.
// Whoever executes it has forked the child and blocked all signals before, so
// that none is lost. It is a program of its own because Python, in its place,
// would cost each container megabytes.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>

namespace {

constexpr int kUsageError = 2;
constexpr int kSignalBase = 128;

// Returns the exit code of a process with this status, as in a shell.
int ExitCode(int status) {
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status)
                             : WEXITSTATUS(status);
}

// Reaps all children that have ended. Returns the exit code of `program`; -1
// while it runs, and kUsageError if it is no child.
int Reap(pid_t program) {
  int code = -1;
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == program) {
      code = ExitCode(status);
    } else if (ended <= 0) {
      const bool has_children = ended == 0;
      return code < 0 && !has_children ? kUsageError : code;
    }
  }
}

// Returns whether the kernel sent a signal, as to a terminal's processes: the
// program has then received it, too.
bool IsFromKernel(const siginfo_t& info) { return info.si_code > 0; }

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  const long number = argc == 2 ? strtol(argv[1], &end, 10) : 0;
  if (number <= 0 || *end != '\0') {
    fprintf(stderr, "tfm-init: give the PID of a child process\n");
    return kUsageError;
  }
  const pid_t program = static_cast<pid_t>(number);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    const int code = Reap(program);
    if (code >= 0) return code;
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    const int came = sigwaitinfo(&all, &info);
    if (came < 0 || came == SIGCHLD || IsFromKernel(info)) continue;
    kill(program, came);
  }
}
