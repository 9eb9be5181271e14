//===- Call.h - running compiled code from Python ---------------*- C++ -*-===//

#ifndef BUDDY_BINDINGS_CALL_H
#define BUDDY_BINDINGS_CALL_H

#include <pybind11/pybind11.h>

namespace buddy {

/// Adds the class `Callable` to the module.
void bindCallable(pybind11::module_ &module);

/// Adds the function `host_lacks`.
void bindHost(pybind11::module_ &module);

} // namespace buddy

#endif // BUDDY_BINDINGS_CALL_H
