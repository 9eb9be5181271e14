//===- Special.cpp - special functions that generated code calls ----------===//

#include "Special.h"

#include <boost/math/special_functions/digamma.hpp>
#include <cmath>

namespace {
namespace policies = boost::math::policies;
/// No exceptions: domain errors and poles give NaN, overflows an infinity.
using Quiet = policies::policy<
    policies::domain_error<policies::ignore_error>,
    policies::pole_error<policies::ignore_error>,
    policies::overflow_error<policies::ignore_error>,
    policies::underflow_error<policies::ignore_error>,
    policies::denorm_error<policies::ignore_error>,
    policies::rounding_error<policies::ignore_error>,
    policies::evaluation_error<policies::ignore_error>,
    policies::indeterminate_result_error<policies::ignore_error>,
    policies::promote_double<false>>;
constexpr double kInfinity = HUGE_VAL;
} // namespace

/// PyTorch: -inf at 0 with the sign against the zero's, NaN at the other poles.
BUDDY_MATH_EXPORT double buddy_special_digamma(double x) {
  if (x == 0)
    return std::copysign(kInfinity, -x);
  if (x < 0 && x == std::floor(x))
    return NAN;
  if (std::isinf(x))
    return x > 0 ? x : NAN;
  return boost::math::digamma(x, Quiet());
}

BUDDY_MATH_EXPORT double buddy_special_lgamma(double x) {
  return std::lgamma(x);
}
