//===- CpuCount.h - How many CPUs this process may use ----------*- C++ -*-===//
//
// The number of hardware threads is the wrong default in a container or under
// taskset.  The count here is the smaller of the scheduler's affinity mask and
// the CPU quota of the process's control groups (cgroup v2 `cpu.max`, v1
// `cpu.cfs_quota_us`), each of whose ancestors may set a tighter quota; see
// Documentation/admin-guide/cgroup-v2.rst of Linux.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_CPUCOUNT_H
#define BUDDY_CPUCOUNT_H

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sched.h>
#include <sstream>
#include <string>

namespace buddy {

namespace detail {

/// CPUs in the affinity mask; at least 1.
inline int affinityCpuCount() {
  // The kernel refuses a mask smaller than its own, so grow until it fits.
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (!set)
      break;
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(bytes, set);
    int count =
        sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0)
      return count;
  }
  return 1;
}

/// CPUs granted by the quota files in one control group's folder; infinity if
/// there is no quota.
inline double cgroupFolderLimit(const std::string &folder, bool unified) {
  const double none = std::numeric_limits<double>::infinity();
  double quota = -1, period = -1;
  if (unified) {
    std::string word;
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> word >> period) || word == "max")
      return none;
    quota = std::strtod(word.c_str(), nullptr);
  } else {
    std::ifstream quotaFile(folder + "/cpu.cfs_quota_us");
    std::ifstream periodFile(folder + "/cpu.cfs_period_us");
    if (!(quotaFile >> quota) || !(periodFile >> period))
      return none;
  }
  return quota > 0 && period > 0 ? quota / period : none;
}

/// The tightest quota of the groups that `procFile` (/proc/self/cgroup) lists,
/// mounted below `root` (/sys/fs/cgroup), in CPUs; infinity if there is none.
inline double cgroupCpuLimit(const std::string &procFile,
                             const std::string &root) {
  double limit = std::numeric_limits<double>::infinity();
  std::ifstream groups(procFile);
  // Each line is "hierarchy-id:controller,controller:/path".
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':');
    size_t second =
        first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    bool unified = controllers.empty();
    std::string mount = root;
    if (!unified) {
      bool hasCpu = false;
      std::istringstream names(controllers);
      for (std::string name; std::getline(names, name, ',');)
        hasCpu |= name == "cpu";
      if (!hasCpu)
        continue;
      mount += "/" + controllers;
    }
    // Inside a container the path may be the host's and not exist here: then
    // the walk ends at the mount point, which is the container's own group.
    while (true) {
      limit = std::min(limit, cgroupFolderLimit(mount + path, unified));
      size_t slash = path.rfind('/');
      if (slash == std::string::npos)
        break;
      path.resize(slash);
    }
  }
  return limit;
}

} // namespace detail

/// CPUs that this process may use, at least 1.  A quota of a fraction of a CPU
/// is rounded up.
inline int cpuCount() {
  double limit = detail::cgroupCpuLimit("/proc/self/cgroup", "/sys/fs/cgroup");
  int affinity = detail::affinityCpuCount();
  if (limit >= affinity)
    return affinity;
  return std::max(1, static_cast<int>(std::ceil(limit)));
}

} // namespace buddy

#endif // BUDDY_CPUCOUNT_H
