//===- Context.h - The context of a call to compiled code -------*- C++ -*-===//
//
// `buddy_ctx` is the first argument of every compiled entry point.  The
// compiler emits code against the byte offsets below, so a change of layout is
// a change of BUDDY_ABI_VERSION.  A context serves one call at a time;
// concurrent calls use one context each.
//
// The first part is plain C.  C++ gets buddy::Context, which owns a buddy_ctx
// with its workspace and output allocations.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_CONTEXT_H
#define BUDDY_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BUDDY_ABI_VERSION 1u
#define BUDDY_MESSAGE_SIZE 432

/// What an entry point returns; the text is in buddy_ctx::message.
enum buddy_error {
  BUDDY_OK = 0,
  BUDDY_E_ABI = 1,         ///< ctx->abi is not the version compiled against.
  BUDDY_E_SHAPE = 2,       ///< A size or stride differs from the declared one.
  BUDDY_E_NULL = 3,        ///< A context, descriptor or data pointer is null.
  BUDDY_E_WORKSPACE = 4,   ///< Workspace too small or not 64-byte aligned.
  BUDDY_E_CHECK = 5,       ///< A data-dependent check failed in the call.
  BUDDY_E_NOMEM = 6,       ///< Memory could not be allocated.
  BUDDY_E_ARGUMENT = 7,    ///< An argument is out of its domain.
  BUDDY_E_IO = 8,          ///< A file cannot be opened, read or mapped.
  BUDDY_E_FORMAT = 9,      ///< A file's contents are malformed.
  BUDDY_E_UNSUPPORTED = 10 ///< Well formed, but of a kind not implemented.
};

typedef struct buddy_ctx buddy_ctx;

/// Allocates `size` bytes aligned to `align` (a power of two) for an output
/// whose size is known only during the call; NULL if there is no memory.
typedef void *(*buddy_alloc_fn)(buddy_ctx *ctx, int64_t size, int64_t align);

struct buddy_ctx {
  uint32_t abi;           ///< 0: BUDDY_ABI_VERSION.
  int32_t num_threads;    ///< 4: threads of a parallel region, at least 1.
  int32_t block_time_ms;  ///< 8: how long idle workers spin, milliseconds.
  int32_t error;          ///< 12: code of the last failed call.
  void *workspace;        ///< 16: scratch memory, 64-byte aligned.
  int64_t workspace_size; ///< 24: bytes at `workspace`.
  const void *weights;    ///< 32: data section of the weights file.
  int64_t weights_size;   ///< 40: bytes at `weights`.
  buddy_alloc_fn alloc;   ///< 48: allocator of data-dependent outputs.
  void *alloc_data;       ///< 56: free for the use of `alloc`.
  uint64_t rng_seed;      ///< 64: seed of the counter-based generator.
  uint64_t rng_offset;    ///< 72: numbers already drawn from it.
  char message[BUDDY_MESSAGE_SIZE]; ///< 80: NUL-terminated text of the error.
};

#ifdef __cplusplus
} // extern "C"
#define BUDDY_STATIC_ASSERT static_assert
#else
#define BUDDY_STATIC_ASSERT _Static_assert
#endif

#define BUDDY_CHECK_FIELD(field, at)                                           \
  BUDDY_STATIC_ASSERT(offsetof(struct buddy_ctx, field) == (at),               \
                      "the compiler relies on the offset of " #field)
BUDDY_CHECK_FIELD(abi, 0);
BUDDY_CHECK_FIELD(num_threads, 4);
BUDDY_CHECK_FIELD(block_time_ms, 8);
BUDDY_CHECK_FIELD(error, 12);
BUDDY_CHECK_FIELD(workspace, 16);
BUDDY_CHECK_FIELD(workspace_size, 24);
BUDDY_CHECK_FIELD(weights, 32);
BUDDY_CHECK_FIELD(weights_size, 40);
BUDDY_CHECK_FIELD(alloc, 48);
BUDDY_CHECK_FIELD(alloc_data, 56);
BUDDY_CHECK_FIELD(rng_seed, 64);
BUDDY_CHECK_FIELD(rng_offset, 72);
BUDDY_CHECK_FIELD(message, 80);
BUDDY_STATIC_ASSERT(sizeof(struct buddy_ctx) == 512, "size of buddy_ctx");
#undef BUDDY_CHECK_FIELD
#undef BUDDY_STATIC_ASSERT

// The compiler, built without exceptions, needs the layout only.
#if defined(__cplusplus) && defined(__cpp_exceptions)

#include "buddy/CpuCount.h"
#include "buddy/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace buddy {

/// Owns a buddy_ctx, its workspace and the outputs allocated during calls.
/// Movable (the address of the buddy_ctx stays), not copyable.
///
///   buddy::Context ctx;
///   ctx.reserve(model_workspace_size(ctx, ...));
///   ctx.check(model(ctx, ...));
class Context {
public:
  /// Alignment in bytes of the workspace and of memory given to outputs.
  static constexpr int64_t Alignment = 64;

  /// `numThreads` 0 takes as many as the process has CPUs (cpuCount()).
  explicit Context(int numThreads = 0) : state(std::make_unique<State>()) {
    buddy_ctx &ctx = state->ctx;
    ctx.abi = BUDDY_ABI_VERSION;
    ctx.block_time_ms = 1;
    ctx.alloc = allocateOutput;
    ctx.alloc_data = state.get();
    setNumThreads(numThreads == 0 ? cpuCount() : numThreads);
  }

  buddy_ctx *get() noexcept { return &state->ctx; }
  const buddy_ctx *get() const noexcept { return &state->ctx; }
  operator buddy_ctx *() noexcept { return get(); }
  buddy_ctx *operator->() noexcept { return get(); }
  const buddy_ctx *operator->() const noexcept { return get(); }

  int numThreads() const noexcept { return get()->num_threads; }
  void setNumThreads(int threads) {
    if (threads < 1)
      throw Error(BUDDY_E_ARGUMENT, "thread count " + std::to_string(threads) +
                                        " is not at least 1");
    get()->num_threads = threads;
  }

  /// The data section of the weights file; the caller keeps it mapped.
  void setWeights(const void *data, int64_t size) noexcept {
    get()->weights = data;
    get()->weights_size = size;
  }

  void seed(uint64_t value) noexcept {
    get()->rng_seed = value;
    get()->rng_offset = 0;
  }

  /// Makes the workspace at least `bytes` large; its contents are not kept.
  /// `bytes` may be what a NAME_workspace_size function returned: a negative
  /// value means that it failed and left its message in the context.  Returns
  /// BUDDY_OK or an error code, like the entry points; never throws.
  int32_t tryReserve(int64_t bytes) noexcept {
    buddy_ctx &ctx = state->ctx;
    if (bytes < 0)
      return ctx.error != BUDDY_OK
                 ? ctx.error
                 : fail(BUDDY_E_WORKSPACE, "negative workspace size");
    if (bytes <= ctx.workspace_size && ctx.workspace)
      return BUDDY_OK;
    if (bytes > INT64_MAX - Alignment)
      return failAllocation(bytes);
    // Freed first: the old contents are not needed, so the peak is one
    // workspace, not two.
    std::free(ctx.workspace);
    ctx.workspace = nullptr;
    ctx.workspace_size = 0;
    int64_t rounded =
        std::max((bytes + Alignment - 1) / Alignment * Alignment, Alignment);
    ctx.workspace = std::aligned_alloc(Alignment, rounded);
    if (!ctx.workspace)
      return failAllocation(bytes);
    ctx.workspace_size = rounded;
    return BUDDY_OK;
  }

  /// As tryReserve, but throws buddy::Error.
  void reserve(int64_t bytes) { check(tryReserve(bytes)); }

  /// Throws buddy::Error with the context's message unless `rc` is BUDDY_OK.
  void check(int32_t rc) const {
    if (rc == BUDDY_OK)
      return;
    const char *text = get()->message;
    size_t length = strnlen(text, BUDDY_MESSAGE_SIZE);
    throw Error(rc, length ? std::string(text, length)
                           : "call failed with code " + std::to_string(rc));
  }

  /// Frees the outputs that calls allocated through ctx->alloc.
  void freeOutputs() noexcept { state->freeOutputs(); }

  /// Gives up an output allocated through ctx->alloc: the caller frees it with
  /// std::free (MemRef::adopt does).  False if `pointer` is not one of them.
  bool releaseOutput(const void *pointer) noexcept {
    auto &outputs = state->outputs;
    auto it = std::find(outputs.begin(), outputs.end(), pointer);
    if (it == outputs.end())
      return false;
    outputs.erase(it);
    return true;
  }

private:
  struct State {
    buddy_ctx ctx = {};
    std::vector<void *> outputs;

    State() = default;
    State(const State &) = delete;
    State &operator=(const State &) = delete;
    ~State() {
      freeOutputs();
      std::free(ctx.workspace);
    }
    void freeOutputs() noexcept {
      for (void *pointer : outputs)
        std::free(pointer);
      outputs.clear();
    }
  };

  int32_t fail(int32_t code, const char *text) noexcept {
    buddy_ctx &ctx = state->ctx;
    ctx.error = code;
    std::snprintf(ctx.message, sizeof(ctx.message), "%s", text);
    return code;
  }

  int32_t failAllocation(int64_t bytes) noexcept {
    char text[96];
    std::snprintf(text, sizeof(text), "no memory for a workspace of %lld bytes",
                  static_cast<long long>(bytes));
    return fail(BUDDY_E_NOMEM, text);
  }

  // Called from compiled code, through which no exception may pass.
  static void *allocateOutput(buddy_ctx *ctx, int64_t size,
                              int64_t align) noexcept {
    if (size < 0 || align <= 0 || (align & (align - 1)) != 0)
      return nullptr;
    align = std::max(align, Alignment);
    if (size > INT64_MAX - align)
      return nullptr;
    auto *state = static_cast<State *>(ctx->alloc_data);
    int64_t rounded = std::max((size + align - 1) / align * align, align);
    void *pointer = std::aligned_alloc(align, rounded);
    if (!pointer)
      return nullptr;
    try {
      state->outputs.push_back(pointer);
    } catch (const std::bad_alloc &) {
      std::free(pointer);
      return nullptr;
    }
    return pointer;
  }

  std::unique_ptr<State> state;
};

} // namespace buddy

#endif // __cplusplus && __cpp_exceptions

#endif // BUDDY_CONTEXT_H
