#include "durable/snapshot_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace flota {
namespace {

constexpr size_t kMostWords = 1024;
// Whoever is served goes first, but not so that a snapshot waits for the end of a training that uses all cores.
constexpr int kNice = 5;

enum Outcome : int { kWritten = 0, kFull = 1, kFailed = 2 };
// What it says at the end, before it exits.
constexpr char kDone = '\0';

void close_all_but(int kept, int words) {
  const auto [low, high] = std::minmax({static_cast<unsigned>(kept), static_cast<unsigned>(words)});
  if (low > 0) close_range(0, low - 1, 0);
  if (high - low > 1) close_range(low + 1, high - 1, 0);
  close_range(high + 1, ~0u, 0);
}

// What the copy does. It must not return: above it are frames of a server that it is not.
[[noreturn]] void work(pid_t parent, int kept, int words, const std::function<Result<void>()>& write) {
  // Should the server die, so does this: nobody would want what it writes, and its folder is the next server's.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kFailed);
  for (int number = 1; number < NSIG; ++number) signal(number, number == SIGXFSZ ? SIG_IGN : SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Sockets that stayed open here would keep clients waiting for a server that has died.
  close_all_but(kept, words);
  setpriority(PRIO_PROCESS, 0, kNice);
  Result<void> status;
  try {
    status = write();
  } catch (const std::bad_alloc&) {
    status = Error{ErrorCode::kSystem, "out of memory"};
  }
  if (status) {
    [[maybe_unused]] ssize_t ignored = ::write(words, &kDone, 1);
    _exit(kWritten);
  }
  const std::string& message = status.error().message;
  [[maybe_unused]] ssize_t ignored = ::write(words, message.data(), std::min(message.size(), kMostWords));
  _exit(status.error().code == ErrorCode::kNoSpace ? kFull : kFailed);
}

}  // namespace

Result<void> SnapshotProcess::begin(const File& kept, const std::function<Result<void>()>& write) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return file_error("make a pipe for", kept.path());
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) work(parent, kept.fd(), ends[1], write);
  const int why = errno;
  ::close(ends[1]);
  words_ = File::adopt(ends[0], kept.path());
  if (pid < 0) {
    return Error{ErrorCode::kSystem, std::string("cannot fork for a snapshot: ") + std::strerror(why)};
  }
  pid_ = pid;
  return {};
}

std::optional<Result<void>> SnapshotProcess::poll(Deadline deadline) {
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == 0) {
    if (!deadline.passed()) return std::nullopt;
    end();
    return Error{ErrorCode::kDeadline, "it was not written in time, and given up"};
  }
  if (ended < 0) return poll_lost(deadline);
  pid_ = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kWritten) return Result<void>();
  if (WIFSIGNALED(status)) {
    return Error{ErrorCode::kSystem, "its process was ended by signal " + std::to_string(WTERMSIG(status))};
  }
  std::array<char, kMostWords> words;
  const ssize_t bytes = ::read(words_.fd(), words.data(), words.size());
  return Error{WEXITSTATUS(status) == kFull ? ErrorCode::kNoSpace : ErrorCode::kSystem,
               std::string(words.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)))};
}

// Where SIGCHLD is ignored, or somebody else waits for all of this process's children, how it ended is told by its
// words alone.
std::optional<Result<void>> SnapshotProcess::poll_lost(Deadline deadline) {
  std::array<char, kMostWords> words;
  const ssize_t bytes = ::read(words_.fd(), words.data(), words.size());
  if (bytes < 0 && errno == EAGAIN) {
    if (!deadline.passed()) return std::nullopt;
    end();
    return Error{ErrorCode::kDeadline, "it was not written in time, and given up"};
  }
  pid_ = 0;
  if (bytes == 1 && words[0] == kDone) return Result<void>();
  if (bytes > 0) return Error{ErrorCode::kSystem, std::string(words.data(), static_cast<size_t>(bytes))};
  return Error{ErrorCode::kSystem, "its process was ended"};
}

void SnapshotProcess::end() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

}  // namespace flota
