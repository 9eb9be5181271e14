"""The importer: FX graphs of core ATen to MLIR.

    gm = prepare_fx(gm)                     # before AOTAutograd: keeps attention and norms whole
    aot_autograd(fw_compiler=..., decompositions=decompositions())
    module = import_graph(gm, args, name="forward")
    module = import_exported_program(torch.export.export(...), name="forward")

The result's form is fixed in docs/architecture.md, section 2.
"""

from .builder import Builder
from .custom_ops import LoweringError, register_lowering
from .decomposed.recurrence import whole_recurrences, whole_recurrences_if
from .decomposition import decompositions
from .errors import ImportGraphError, MissingOp, Unsupported, UnsupportedOpsError
from .export import add_exported_program, import_exported_program
from .fx_passes import prepare_fx
from .module import ImportedModule, ModuleBuilder, import_graph
from .registry import lowers, supported
from .signature import ArgInfo, ArgSpec, FunctionInfo, OutputInfo
from .values import Tensor

__all__ = [
    "ArgInfo",
    "ArgSpec",
    "Builder",
    "FunctionInfo",
    "ImportGraphError",
    "ImportedModule",
    "LoweringError",
    "MissingOp",
    "ModuleBuilder",
    "OutputInfo",
    "Tensor",
    "Unsupported",
    "UnsupportedOpsError",
    "add_exported_program",
    "decompositions",
    "import_exported_program",
    "import_graph",
    "lowers",
    "prepare_fx",
    "register_lowering",
    "supported",
    "whole_recurrences",
    "whole_recurrences_if",
]
