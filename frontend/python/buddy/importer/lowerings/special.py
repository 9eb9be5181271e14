"""Special functions by the run-time library, element by element.

f64 is computed exactly, or nearly; f32, and what promotes to it, as eager computes it in f32, to
the same bits where `buddy_special_<name>f` exists, and otherwise in f64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mlir import ir
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from .. import scalars, types
from ..builder import Builder
from ..registry import lowers
from ..values import Tensor
from .elementwise import elementwise

aten = torch.ops.aten

# Operator -> function of `libbuddy_math` after `buddy_special_`; arguments in the operator's order.
_FUNCTIONS = {
    aten.digamma.default: "digamma",
    aten.lgamma.default: "lgamma",
    aten.polygamma.default: "polygamma",
    aten.erfinv.default: "erfinv",
    aten.igamma.default: "igamma",
    aten.igammac.default: "igammac",
    aten.i0.default: "i0",
    aten.special_i0e.default: "i0e",
    aten.special_i1.default: "i1",
    aten.special_i1e.default: "i1e",
    aten.special_modified_bessel_i0.default: "i0",
    aten.special_modified_bessel_i1.default: "modified_i1",
    aten.special_modified_bessel_k0.default: "k0",
    aten.special_modified_bessel_k1.default: "k1",
    aten.special_scaled_modified_bessel_k0.default: "k0e",
    aten.special_scaled_modified_bessel_k1.default: "k1e",
    aten.special_bessel_j0.default: "j0",
    aten.special_bessel_j1.default: "j1",
    aten.special_bessel_y0.default: "y0",
    aten.special_bessel_y1.default: "y1",
    aten.special_spherical_bessel_j0.default: "spherical_j0",
    aten.special_airy_ai.default: "airy_ai",
    aten.special_ndtri.default: "ndtri",
    aten.special_log_ndtr.default: "log_ndtr",
    aten.special_entr.default: "entr",
    aten.special_erfcx.default: "erfcx",
}
# Packets whose overloads take a number for either argument.
_PACKETS = {
    aten.special_zeta: "zeta",
    aten.special_chebyshev_polynomial_t: "chebyshev_t",
    aten.special_chebyshev_polynomial_u: "chebyshev_u",
    aten.special_chebyshev_polynomial_v: "chebyshev_v",
    aten.special_chebyshev_polynomial_w: "chebyshev_w",
    aten.special_shifted_chebyshev_polynomial_t: "shifted_chebyshev_t",
    aten.special_shifted_chebyshev_polynomial_u: "shifted_chebyshev_u",
    aten.special_shifted_chebyshev_polynomial_v: "shifted_chebyshev_v",
    aten.special_shifted_chebyshev_polynomial_w: "shifted_chebyshev_w",
    aten.special_hermite_polynomial_h: "hermite_h",
    aten.special_hermite_polynomial_he: "hermite_he",
    aten.special_laguerre_polynomial_l: "laguerre_l",
    aten.special_legendre_polynomial_p: "legendre_p",
}
for _packet, _name in _PACKETS.items():
    for _overload in _packet.overloads():
        if not _overload.endswith("out"):
            _FUNCTIONS[getattr(_packet, _overload)] = _name


# Functions without one of f32.
_F64_ONLY = ("erfinv", "igamma", "igammac")


def scalar_call(name: str, dtype: torch.dtype, *operands: ir.Value) -> ir.Value:
    """Return a function of numbers of the run-time library, called on elements of a dtype."""
    single = dtype == torch.float32 and name not in _F64_ONLY
    used = dtype if single else torch.float64
    result = ir.Operation.create(
        "buddy.scalar_call",
        results=[types.element_type(used)],
        operands=[scalars.cast(x, dtype, used) for x in operands],
        attributes={"callee": ir.StringAttr.get(f"buddy_special_{name}{'f' * single}")},
    ).result
    return scalars.cast(result, used, dtype)


def _rule(name: str) -> Callable[..., Tensor]:
    def function(dtype: torch.dtype, *elements: ir.Value) -> ir.Value:
        return scalar_call(name, dtype, *elements)

    def rule(b: Builder, *operands: Any) -> Tensor:
        # The whole numbers of polygamma and of scalar overloads promote as numbers do.
        return elementwise(b, operands, function, Kind.INT_TO_FLOAT)

    return rule


for _op, _name in _FUNCTIONS.items():
    lowers(_op)(_rule(_name))
