//===- Special.cpp - special functions that generated code calls ----------===//

#include "Special.h"

#include <algorithm>
#include <boost/math/special_functions/airy.hpp>
#include <boost/math/special_functions/bessel.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
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
constexpr double kInfinity = HUGE_VAL, kPi = 3.141592653589793238;
/// From here on exponentials would overflow, and three terms of an asymptotic
/// series in 1/x are exact to f64.
constexpr double kLarge = 500;

bool isWhole(double x) { return x == std::floor(x); }

/// The series of Hankel's expansion (DLMF 10.40.1 and 10.40.2) for x of at
/// least kLarge, `sign` -1 for I and 1 for K.
double hankel(int order, double x, double sign) {
  double mu = 4.0 * order * order, term = 1, sum = 1;
  for (int k = 1; k <= 6; ++k) {
    int odd = 2 * k - 1;
    term *= sign * (mu - odd * odd) / (k * 8 * x);
    sum += term;
  }
  return sum;
}

/// I of an order times exp(-|x|).
double scaledI(int order, double x) {
  double size = std::fabs(x), sign = x < 0 && order % 2 ? -1 : 1;
  if (std::isnan(x))
    return x;
  if (std::isinf(x))
    return 0;
  if (size > kLarge)
    return sign * hankel(order, size, -1) / std::sqrt(2 * kPi * size);
  return sign * std::exp(-size) *
         boost::math::cyl_bessel_i(order, size, Quiet());
}

/// K of an order times exp(x).
double scaledK(int order, double x) {
  if (x == 0)
    return kInfinity;
  if (!(x > 0))
    return NAN;
  if (std::isinf(x))
    return 0;
  if (x > kLarge)
    return hankel(order, x, 1) * std::sqrt(kPi / (2 * x));
  return std::exp(x) * boost::math::cyl_bessel_k(order, x, Quiet());
}
} // namespace

/// -inf at 0 with the sign against the zero's, NaN at the other poles.
BUDDY_MATH_EXPORT double buddy_special_digamma(double x) {
  if (x == 0)
    return std::copysign(kInfinity, -x);
  if (x < 0 && isWhole(x))
    return NAN;
  if (std::isinf(x))
    return x > 0 ? x : NAN;
  if (x < 0) // by reflection, with a pole's distance exact (DLMF 5.5.4)
    return boost::math::digamma(1 - x, Quiet()) -
           kPi / std::tan(kPi * (x - std::trunc(x)));
  return boost::math::digamma(x, Quiet());
}

BUDDY_MATH_EXPORT double buddy_special_lgamma(double x) {
  int sign; // Not lgamma, which writes it to a variable of the C library.
  return lgamma_r(x, &sign);
}

/// Hurwitz's zeta function, the sum of (q + k)^-s: the first terms, and the
/// rest by Euler and Maclaurin (DLMF 25.11.5 with its remainder).
BUDDY_MATH_EXPORT double buddy_special_zeta(double s, double q) {
  if (s == 1)
    return kInfinity;
  if (!(s > 1) || std::isnan(q))
    return NAN;
  if (q <= 0) {
    if (isWhole(q))
      return kInfinity;
    if (!isWhole(s))
      return NAN;
  }
  double sum = 0;
  while (q < 12) {
    sum += std::pow(q, -s);
    q += 1;
  }
  double power = std::pow(q, -s);
  sum += power * q / (s - 1) + power / 2;
  // Bernoulli numbers B2k over (2k)!.
  static const double coefficients[] = {
      1. / 12,          -1. / 720,
      1. / 30240,       -1. / 1209600,
      1. / 47900160,    -691. / 1307674368000,
      1. / 74724249600, -3617. / 10670622842880000};
  double factor = s * power / q;
  for (int k = 0; k < 8; ++k) {
    sum += coefficients[k] * factor;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q);
  }
  return sum;
}

/// The n-th derivative of digamma; n is a whole number from 0 on.
BUDDY_MATH_EXPORT double buddy_special_polygamma(double n, double x) {
  if (n == 0)
    return buddy_special_digamma(x);
  if (n == 1) {
    if (x <= 0 && isWhole(x))
      return kInfinity;
    return boost::math::trigamma(x, Quiet());
  }
  double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::tgamma(n + 1) * buddy_special_zeta(n + 1, x);
}

BUDDY_MATH_EXPORT double buddy_special_erfinv(double x) {
  if (x == 0)
    return x; // -0 too
  if (std::fabs(x) == 1)
    return std::copysign(kInfinity, x);
  return std::fabs(x) < 1 ? boost::math::erf_inv(x, Quiet()) : NAN;
}

/// exp(x^2) erfc(x); of negative numbers by reflection, with the digits that
/// PyTorch's has: what rounding x^2 takes away is lost.
BUDDY_MATH_EXPORT double buddy_special_erfcx(double x) {
  if (x < 0) {
    if (x < -26.7)
      return kInfinity;
    double growing = 2 * std::exp(x * x);
    return x < -6.1 ? growing : growing - buddy_special_erfcx(-x);
  }
  if (x < 25) {
    double square = x * x, rest = std::fma(x, x, -square);
    return std::exp(square) * (1 + rest) * std::erfc(x);
  }
  double y = 1 / (2 * x * x), sum = 1; // DLMF 7.12.1
  for (int k = 15; k > 0; k -= 2)
    sum = 1 - k * y * sum;
  return sum / (x * std::sqrt(kPi));
}

/// The inverse of the normal distribution's cumulative function.
BUDDY_MATH_EXPORT double buddy_special_ndtri(double p) {
  if (p == 0 || p == 1)
    return p == 0 ? -kInfinity : kInfinity;
  if (!(p > 0 && p < 1))
    return NAN;
  return -std::sqrt(2.0) * boost::math::erfc_inv(2 * p, Quiet());
}

BUDDY_MATH_EXPORT double buddy_special_log_ndtr(double x) {
  double t = x * 0.707106781186547524401;
  if (x < -1)
    return std::log(buddy_special_erfcx(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

/// -x log x.
BUDDY_MATH_EXPORT double buddy_special_entr(double x) {
  if (std::isnan(x))
    return x;
  return x > 0 ? -x * std::log(x) : x == 0 ? 0 : -kInfinity;
}

/// The regularized incomplete gamma functions.
static double incompleteGamma(double a, double x, bool upper) {
  double none = upper ? 1 : 0, all = upper ? 0 : 1;
  if (!(a >= 0 && x >= 0))
    return NAN;
  if (a == 0)
    return x > 0 ? all : NAN;
  if (x == 0)
    return none;
  if (std::isinf(a))
    return std::isinf(x) ? NAN : none;
  if (std::isinf(x))
    return all;
  return upper ? boost::math::gamma_q(a, x, Quiet())
               : boost::math::gamma_p(a, x, Quiet());
}
BUDDY_MATH_EXPORT double buddy_special_igamma(double a, double x) {
  return incompleteGamma(a, x, false);
}
BUDDY_MATH_EXPORT double buddy_special_igammac(double a, double x) {
  return incompleteGamma(a, x, true);
}

// ---- Bessel functions
// ---------------------------------------------------------

BUDDY_MATH_EXPORT double buddy_special_i0e(double x) { return scaledI(0, x); }
BUDDY_MATH_EXPORT double buddy_special_i1e(double x) { return scaledI(1, x); }
BUDDY_MATH_EXPORT double buddy_special_i0(double x) {
  return std::isinf(x) ? kInfinity : std::exp(std::fabs(x)) * scaledI(0, x);
}
BUDDY_MATH_EXPORT double buddy_special_i1(double x) {
  return std::isinf(x) ? x : std::exp(std::fabs(x)) * scaledI(1, x);
}
BUDDY_MATH_EXPORT double buddy_special_modified_i1(double x) {
  return buddy_special_i1(x);
}
BUDDY_MATH_EXPORT double buddy_special_k0e(double x) { return scaledK(0, x); }
BUDDY_MATH_EXPORT double buddy_special_k1e(double x) { return scaledK(1, x); }
BUDDY_MATH_EXPORT double buddy_special_k0(double x) {
  return std::isinf(x) && x > 0 ? 0 : std::exp(-x) * scaledK(0, x);
}
BUDDY_MATH_EXPORT double buddy_special_k1(double x) {
  return std::isinf(x) && x > 0 ? 0 : std::exp(-x) * scaledK(1, x);
}
BUDDY_MATH_EXPORT double buddy_special_j0(double x) {
  return std::isinf(x) ? 0 : ::j0(x);
}
BUDDY_MATH_EXPORT double buddy_special_j1(double x) {
  return std::isinf(x) ? 0 : ::j1(x);
}
BUDDY_MATH_EXPORT double buddy_special_y0(double x) {
  return x < 0 ? NAN : std::isinf(x) ? 0 : ::y0(x);
}
BUDDY_MATH_EXPORT double buddy_special_y1(double x) {
  return x < 0 ? NAN : std::isinf(x) ? 0 : ::y1(x);
}
BUDDY_MATH_EXPORT double buddy_special_spherical_j0(double x) {
  if (std::isinf(x))
    return 0;
  return x == 0 ? 1 : std::sin(x) / x;
}
BUDDY_MATH_EXPORT double buddy_special_airy_ai(double x) {
  if (std::isinf(x) || std::isnan(x))
    return NAN;
  // Underflows to 0 from here on.
  return x > 108 ? 0 : boost::math::airy_ai(x, Quiet());
}

// ---- orthogonal polynomials
// ----------------------------------------------------

namespace {
/// Chebyshev's polynomials differ in the first two and at the ends of the
/// interval: T, U, V and W (DLMF 18.3).
enum class Kind { T, U, V, W };

/// From this degree on the trigonometric form is used inside the interval, as
/// recurrences lose digits. The form's 0 / 0 at an end is the value there.
double chebyshev(Kind kind, double x, double order, double degree) {
  int64_t n = order;
  if (n < 0)
    return 0;
  double odd = n % 2 ? -1 : 1, many = kind == Kind::U ? n + 1 : 2 * n + 1;
  if (x == 1)
    return kind == Kind::T || kind == Kind::V ? 1 : many;
  if (x == -1)
    return odd * (kind == Kind::T || kind == Kind::W ? 1 : many);
  if (n > degree && std::fabs(x) < 1) {
    double angle = std::acos(x);
    switch (kind) {
    case Kind::T:
      return std::cos(n * angle);
    case Kind::U:
      return std::sin((n + 1) * angle) / std::sin(angle);
    case Kind::V:
      return std::cos((n + 0.5) * angle) / std::cos(angle / 2);
    case Kind::W:
      return std::sin((n + 0.5) * angle) / std::sin(angle / 2);
    }
  }
  double before = 1, value = kind == Kind::T   ? x
                             : kind == Kind::U ? 2 * x
                             : kind == Kind::V ? 2 * x - 1
                                               : 2 * x + 1;
  if (n == 0)
    return before;
  for (int64_t k = 2; k <= n && !std::isnan(value); ++k) {
    double next = 2 * x * value - before;
    before = value;
    value = next;
  }
  return value;
}

/// p(n) from p(0) = 1, p(1) = first and a step (k, p(k), p(k - 1)) -> p(k + 1).
template <class Step> double recur(double order, double first, Step step) {
  int64_t n = order;
  if (n <= 0)
    return n < 0 ? 0 : 1;
  double before = 1, value = first;
  for (int64_t k = 1; k < n && !std::isnan(value); ++k) {
    double next = step(double(k), value, before);
    before = value;
    value = next;
  }
  return value;
}
/// PyTorch gives up beyond this degree, where values overflow.
constexpr double kHermiteDegrees = 512;
} // namespace

#define CHEBYSHEV(NAME, KIND, DEGREE, SHIFTED_DEGREE)                          \
  BUDDY_MATH_EXPORT double buddy_special_chebyshev_##NAME(double x,            \
                                                          double n) {          \
    return chebyshev(Kind::KIND, x, n, DEGREE);                                \
  }                                                                            \
  BUDDY_MATH_EXPORT double buddy_special_shifted_chebyshev_##NAME(double x,    \
                                                                  double n) {  \
    return chebyshev(Kind::KIND, 2 * x - 1, n, SHIFTED_DEGREE);                \
  }
CHEBYSHEV(t, T, 6, 6)
CHEBYSHEV(u, U, 8, 6)
CHEBYSHEV(v, V, 8, 6)
CHEBYSHEV(w, W, 8, 4)

BUDDY_MATH_EXPORT double buddy_special_hermite_h(double x, double n) {
  if (n > kHermiteDegrees)
    return NAN;
  return recur(n, 2 * x, [&](double k, double p, double before) {
    return 2 * (x * p - k * before);
  });
}
BUDDY_MATH_EXPORT double buddy_special_hermite_he(double x, double n) {
  if (n > kHermiteDegrees)
    return NAN;
  return recur(n, x, [&](double k, double p, double before) {
    return x * p - k * before;
  });
}
BUDDY_MATH_EXPORT double buddy_special_laguerre_l(double x, double n) {
  return recur(n, 1 - x, [&](double k, double p, double before) {
    return ((2 * k + 1 - x) * p - k * before) / (k + 1);
  });
}
BUDDY_MATH_EXPORT double buddy_special_legendre_p(double x, double n) {
  return recur(n, x, [&](double k, double p, double before) {
    return ((2 * k + 1) * x * p - k * before) / (k + 1);
  });
}
