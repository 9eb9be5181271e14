//===- timing.h - How fast, and with how much memory ----------------------===//

#ifndef LLAMA_TIMING_H
#define LLAMA_TIMING_H

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

using Clock = std::chrono::steady_clock;

inline double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How many tokens took how long.
struct Rate {
  int64_t tokens = 0;
  double seconds = 0;
  double perSecond() const { return seconds > 0 ? tokens / seconds : 0; }
};

/// The most memory that this program ever had in use, mapped weights included;
/// -1 if the system does not tell.  (getrusage counts the parent's memory from
/// before the exec too.)
inline long peakMemoryMB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0)
      return std::strtol(line.c_str() + 6, nullptr, 10) / 1024;
  return -1;
}

#endif // LLAMA_TIMING_H
