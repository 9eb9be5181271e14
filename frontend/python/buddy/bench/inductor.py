"""What inductor needs beside PyTorch: a C++ compiler."""

from __future__ import annotations

import os
import shutil
import sys

from buddy.aot.errors import BundleError

_DEFAULT = "g++"
_OURS = "clang++-22"  # of the set-up


def find_compiler() -> None:
    """Let inductor take the set-up's clang where neither CXX nor g++ is there; this process's
    environment says so, for those that it starts too.
    """
    if os.environ.get("CXX") or shutil.which(_DEFAULT):
        return
    found = shutil.which(_OURS)
    if found is None:
        raise BundleError(
            f"inductor needs a C++ compiler: {_DEFAULT}, {_OURS} or what CXX names; "
            "--no-inductor measures without it"
        )
    os.environ["CXX"] = found
    # Read once, when it is imported.
    config = sys.modules.get("torch._inductor.config")
    if config is not None:
        config.cpp.cxx = (None, found)
