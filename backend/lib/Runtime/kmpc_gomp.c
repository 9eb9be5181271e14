/*===- kmpc_gomp.c - LLVM's OpenMP entry points over libgomp --------------===//
 *
 * Generated code calls the `__kmpc_*` functions of LLVM's OpenMP runtime. A
 * target without libomp links this file and libgomp instead. It has what MLIR's
 * omp dialect makes of parallel regions, statically scheduled loops,
 * critical, master and single regions, barriers and reductions; a construct
 * beyond these is an undefined symbol at link time, not a wrong result.
 *
 * The interface is documented in LLVM's openmp/runtime/src/kmp.h; scheduling
 * constants are kmp_sch_static_chunked (33) and kmp_sch_static (34), loop
 * bounds are inclusive.
 *
 *===----------------------------------------------------------------------===*/

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
extern void GOMP_barrier(void);
extern void GOMP_critical_start(void);
extern void GOMP_critical_end(void);
extern _Bool GOMP_single_start(void);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);

#define EXPORT __attribute__((visibility("hidden")))
enum { MAX_ARGUMENTS = 16 };

typedef struct ident ident_t;
typedef void (*microtask_t)(int32_t *gtid, int32_t *btid, ...);

struct region {
  microtask_t task;
  int32_t count;
  void *arguments[MAX_ARGUMENTS];
};

/* Threads asked for by the next parallel region of this thread; 0: default. */
static __thread unsigned requested_threads;

static void run_region(void *data) {
  struct region *r = data;
  int32_t gtid = omp_get_thread_num(), btid = 0;
  void **a = r->arguments;
  /* A callee ignores arguments it does not declare in the C calling conventions
   * of our targets, but not a short count: pass all. */
  r->task(&gtid, &btid, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8],
          a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
}

/* libgomp's idle workers spin as the environment says when it is loaded. */
EXPORT void kmp_set_blocktime(int milliseconds) { (void)milliseconds; }

EXPORT int32_t __kmpc_global_thread_num(ident_t *loc) {
  (void)loc;
  return omp_get_thread_num();
}

EXPORT void __kmpc_push_num_threads(ident_t *loc, int32_t gtid, int32_t count) {
  (void)loc, (void)gtid;
  requested_threads = count > 0 ? (unsigned)count : 0;
}

EXPORT void __kmpc_fork_call(ident_t *loc, int32_t argc, microtask_t task,
                             ...) {
  (void)loc;
  struct region r = {task, argc, {0}};
  if (argc > MAX_ARGUMENTS)
    abort(); /* The code generator passes one structure. */
  va_list list;
  va_start(list, task);
  for (int32_t i = 0; i < argc; ++i)
    r.arguments[i] = va_arg(list, void *);
  va_end(list);
  unsigned threads = requested_threads;
  requested_threads = 0;
  GOMP_parallel(run_region, &r, threads, 0);
}

EXPORT void __kmpc_barrier(ident_t *loc, int32_t gtid) {
  (void)loc, (void)gtid;
  GOMP_barrier();
}

/* This thread's part of the iterations lb, lb + incr, … <= ub. The trip count
 * is computed unsigned, so that a range over the whole type does not overflow.
 */
#define STATIC_INIT(NAME, T, UT, ST)                                           \
  EXPORT void NAME(ident_t *loc, int32_t gtid, int32_t schedule,               \
                   int32_t *last, T *lb, T *ub, ST *stride, ST incr,           \
                   ST chunk) {                                                 \
    (void)loc, (void)gtid;                                                     \
    UT threads = (UT)omp_get_num_threads(), me = (UT)omp_get_thread_num();     \
    T low = *lb, high = *ub;                                                   \
    int up = incr > 0;                                                         \
    if (up ? high < low : high > low) {                                        \
      *last = 0;                                                               \
      *stride = incr;                                                          \
      return;                                                                  \
    }                                                                          \
    UT distance = up ? (UT)high - (UT)low : (UT)low - (UT)high;                \
    UT trip = distance / (up ? (UT)incr : (UT)0 - (UT)incr) + 1;               \
    UT first, count;                                                           \
    if (schedule == 33) {                                                      \
      count = chunk > 0 ? (UT)chunk : 1;                                       \
      first = me * count;                                                      \
      *stride = (ST)(count * threads) * incr;                                  \
      *last = me == (trip - 1) / count % threads;                              \
    } else {                                                                   \
      UT share = trip / threads, rest = trip % threads;                        \
      first = me * share + (me < rest ? me : rest);                            \
      count = share + (me < rest);                                             \
      *stride = (ST)trip * incr;                                               \
      *last = count && first + count == trip;                                  \
      if (!count) { /* Nothing: an empty range. */                             \
        *lb = (T)((UT)high + (UT)incr);                                        \
        *ub = high;                                                            \
        return;                                                                \
      }                                                                        \
    }                                                                          \
    *lb = (T)((UT)low + first * (UT)incr);                                     \
    *ub = (T)((UT)(*lb) + (count - 1) * (UT)incr);                             \
  }
STATIC_INIT(__kmpc_for_static_init_4, int32_t, uint32_t, int32_t)
STATIC_INIT(__kmpc_for_static_init_4u, uint32_t, uint32_t, int32_t)
STATIC_INIT(__kmpc_for_static_init_8, int64_t, uint64_t, int64_t)
STATIC_INIT(__kmpc_for_static_init_8u, uint64_t, uint64_t, int64_t)

EXPORT void __kmpc_for_static_fini(ident_t *loc, int32_t gtid) {
  (void)loc, (void)gtid;
}

EXPORT void __kmpc_critical(ident_t *loc, int32_t gtid, void *lock) {
  (void)loc, (void)gtid, (void)lock;
  GOMP_critical_start();
}
EXPORT void __kmpc_end_critical(ident_t *loc, int32_t gtid, void *lock) {
  (void)loc, (void)gtid, (void)lock;
  GOMP_critical_end();
}

EXPORT int32_t __kmpc_master(ident_t *loc, int32_t gtid) {
  (void)loc, (void)gtid;
  return omp_get_thread_num() == 0;
}
EXPORT void __kmpc_end_master(ident_t *loc, int32_t gtid) {
  (void)loc, (void)gtid;
}

EXPORT int32_t __kmpc_single(ident_t *loc, int32_t gtid) {
  (void)loc, (void)gtid;
  return GOMP_single_start();
}
EXPORT void __kmpc_end_single(ident_t *loc, int32_t gtid) {
  (void)loc, (void)gtid;
}

/* 1: the caller combines its part inside this critical section. */
EXPORT int32_t __kmpc_reduce_nowait(ident_t *loc, int32_t gtid, int32_t count,
                                    size_t size, void *data,
                                    void (*combine)(void *, void *),
                                    void *lock) {
  (void)loc, (void)gtid, (void)count, (void)size;
  (void)data, (void)combine, (void)lock;
  GOMP_critical_start();
  return 1;
}
EXPORT void __kmpc_end_reduce_nowait(ident_t *loc, int32_t gtid, void *lock) {
  (void)loc, (void)gtid, (void)lock;
  GOMP_critical_end();
}
EXPORT int32_t __kmpc_reduce(ident_t *loc, int32_t gtid, int32_t count,
                             size_t size, void *data,
                             void (*combine)(void *, void *), void *lock) {
  return __kmpc_reduce_nowait(loc, gtid, count, size, data, combine, lock);
}
EXPORT void __kmpc_end_reduce(ident_t *loc, int32_t gtid, void *lock) {
  __kmpc_end_reduce_nowait(loc, gtid, lock);
  GOMP_barrier();
}
