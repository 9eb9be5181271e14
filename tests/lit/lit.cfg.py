"""FileCheck tests of the passes and tools; mirrors midend/lib and tools."""

import os

import lit.formats

config.name = "buddy"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".ll", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.buddy_exec_root
config.environment["PATH"] = os.pathsep.join(
    [config.buddy_bin, config.llvm_bin, os.environ["PATH"]]
)
