//===- Fourier.cpp - discrete Fourier transforms of any length ------------===//
//
// X[k] = scale Σ x[j] exp(∓2πi jk / n) along some dimensions of an array. A
// length whose prime factors are small is computed by Stockham's self-sorting
// mixed-radix algorithm, another one as a convolution by Bluestein's. All
// arithmetic is in f64, whatever the elements are; twiddle factors are good to
// the last bit or two. A transform of one line does not depend on other lines.
//
// Sources: C. Van Loan, Computational Frameworks for the Fast Fourier
// Transform, 1992, sections 1.7 (Stockham) and 4.2 (Bluestein, "chirp").
//
//===----------------------------------------------------------------------===//

#include "Views.h"

#include <cmath>
#include <memory>

using namespace buddy::math;

namespace {
using Number = std::complex<double>;

/// Complex arithmetic without C's rules for infinities, which cost a call.
inline Number multiply(Number a, Number b) {
  return {a.real() * b.real() - a.imag() * b.imag(),
          a.real() * b.imag() + a.imag() * b.real()};
}
inline Number timesI(Number a) { return {-a.imag(), a.real()}; }

/// exp(2πi t / n) for 0 <= t < n, from an angle of at most an eighth turn.
Number root(int64_t t, int64_t n) {
  if (2 * t > n)
    return std::conj(root(n - t, n));
  double step = 6.283185307179586476925286766559 / (8.0 * n);
  int64_t x = 8 * t;
  bool second = x > 2 * n; // quadrant
  if (second)
    x -= 2 * n;
  double a = step * (x <= n ? x : 2 * n - x);
  double c = std::cos(a), s = std::sin(a);
  Number result = x <= n ? Number(c, s) : Number(s, c);
  return second ? timesI(result) : result;
}

/// Transforms of one length in one direction.
class Transform {
public:
  Transform(int64_t length, bool forward) : n(length), forward(forward) {
    int64_t rest = n;
    for (int64_t radix : {4, 2, 3, 5})
      for (; rest % radix == 0; rest /= radix)
        radices.push_back(radix);
    for (int64_t radix = 7; rest > 1 && radix <= kLargestRadix; radix += 2)
      for (; rest % radix == 0; rest /= radix)
        radices.push_back(radix);
    if (rest > 1) {
      prepareChirp();
      return;
    }
    roots.resize(n);
    for (int64_t t = 0; t < n; ++t)
      roots[t] = directed(root(t, n));
    other.resize(n);
  }

  int64_t length() const { return n; }

  /// Transforms `length()` numbers in place, without a factor.
  void run(Number *x) {
    if (inner)
      return runChirp(x);
    Number *from = x, *to = other.data();
    int64_t size = n, stride = 1;
    for (int64_t radix : radices) {
      pass(radix, size, stride, from, to);
      std::swap(from, to);
      size /= radix;
      stride *= radix;
    }
    if (from != x)
      std::copy(from, from + n, x);
  }

private:
  /// Primes up to this are computed by their definition.
  static constexpr int64_t kLargestRadix = 31;

  Number directed(Number w) const { return forward ? std::conj(w) : w; }

  /// One step: sub-transforms of `radix` numbers that lie size / radix apart.
  void pass(int64_t radix, int64_t size, int64_t stride, const Number *from,
            Number *to) const {
    int64_t part = size / radix, table = n / size;
    for (int64_t p = 0; p < part; ++p) {
      const Number *in = from + stride * p;
      Number *out = to + stride * radix * p;
      int64_t step = stride * part;
      switch (radix) {
      case 2:
        pass2(stride, in, out, step, roots[p * table]);
        break;
      case 3:
        pass3(stride, in, out, step, roots[p * table], roots[2 * p * table]);
        break;
      case 4:
        pass4(stride, in, out, step, roots[p * table], roots[2 * p * table],
              roots[3 * p * table]);
        break;
      default:
        passAny(radix, stride, in, out, step, p * table);
      }
    }
  }

  static void pass2(int64_t stride, const Number *in, Number *out, int64_t step,
                    Number w) {
    for (int64_t q = 0; q < stride; ++q) {
      Number a = in[q], b = in[q + step];
      out[q] = a + b;
      out[q + stride] = multiply(a - b, w);
    }
  }

  void pass3(int64_t stride, const Number *in, Number *out, int64_t step,
             Number w1, Number w2) const {
    const double half = 0.86602540378443864676 * (forward ? -1 : 1);
    for (int64_t q = 0; q < stride; ++q) {
      Number a = in[q], b = in[q + step], c = in[q + 2 * step];
      Number sum = b + c, middle = a - 0.5 * sum, turn = timesI(half * (b - c));
      out[q] = a + sum;
      out[q + stride] = multiply(middle + turn, w1);
      out[q + 2 * stride] = multiply(middle - turn, w2);
    }
  }

  void pass4(int64_t stride, const Number *in, Number *out, int64_t step,
             Number w1, Number w2, Number w3) const {
    for (int64_t q = 0; q < stride; ++q) {
      Number a = in[q], b = in[q + step], c = in[q + 2 * step],
             d = in[q + 3 * step];
      Number even = a + c, odd = b + d, turn = timesI(b - d);
      if (forward)
        turn = -turn;
      out[q] = even + odd;
      out[q + stride] = multiply(a - c + turn, w1);
      out[q + 2 * stride] = multiply(even - odd, w2);
      out[q + 3 * stride] = multiply(a - c - turn, w3);
    }
  }

  void passAny(int64_t radix, int64_t stride, const Number *in, Number *out,
               int64_t step, int64_t turn) const {
    int64_t unit = n / radix;
    for (int64_t j = 0; j < radix; ++j)
      for (int64_t q = 0; q < stride; ++q) {
        Number sum = in[q];
        for (int64_t k = 1; k < radix; ++k)
          sum += multiply(in[q + k * step], roots[j * k % radix * unit]);
        out[q + j * stride] = multiply(sum, roots[j * turn]);
      }
  }

  void prepareChirp() {
    radices.clear();
    int64_t size = 1;
    while (size < 2 * n - 1)
      size *= 2;
    inner = std::make_unique<Transform>(size, true);
    back = std::make_unique<Transform>(size, false);
    roots.resize(n); // exp(∓πi k² / n)
    for (int64_t k = 0, square = 0; k < n; ++k) {
      roots[k] = directed(root(square, 2 * n));
      square = (square + 2 * k + 1) % (2 * n);
    }
    kernel.assign(size, Number());
    for (int64_t k = 0; k < n; ++k)
      kernel[k] = kernel[(size - k) % size] =
          std::conj(roots[k]) / double(size);
    inner->run(kernel.data());
    other.resize(size);
  }

  void runChirp(Number *x) {
    std::fill(other.begin(), other.end(), Number());
    for (int64_t k = 0; k < n; ++k)
      other[k] = multiply(x[k], roots[k]);
    inner->run(other.data());
    for (size_t k = 0; k < other.size(); ++k)
      other[k] = multiply(other[k], kernel[k]);
    back->run(other.data());
    for (int64_t k = 0; k < n; ++k)
      x[k] = multiply(other[k], roots[k]);
  }

  int64_t n;
  bool forward;
  std::vector<int64_t> radices;
  std::vector<Number> roots, other, kernel;
  std::unique_ptr<Transform> inner, back;
};

/// Real numbers of one length to or from the first half of their transform; of
/// an even length by a complex transform of half of it.
class RealTransform {
public:
  RealTransform(int64_t length, bool forward)
      : n(length), isEven(length % 2 == 0),
        complex(isEven ? length / 2 : length, forward), buffer(length) {
    if (!isEven)
      return;
    roots.resize(n / 2 + 1);
    for (int64_t k = 0; k <= n / 2; ++k)
      roots[k] = forward ? std::conj(root(k, n)) : root(k, n);
  }

  /// n real numbers to n / 2 + 1 complex ones.
  void forward(const double *x, Number *out) {
    if (!isEven) {
      for (int64_t j = 0; j < n; ++j)
        buffer[j] = x[j];
      complex.run(buffer.data());
      std::copy(buffer.begin(), buffer.begin() + n / 2 + 1, out);
      return;
    }
    int64_t half = n / 2;
    for (int64_t j = 0; j < half; ++j)
      buffer[j] = {x[2 * j], x[2 * j + 1]};
    complex.run(buffer.data());
    for (int64_t k = 0; k <= half; ++k) {
      Number z = buffer[k % half],
             mirror = std::conj(buffer[(half - k) % half]);
      Number even = 0.5 * (z + mirror), odd = -0.5 * timesI(z - mirror);
      out[k] = even + multiply(odd, roots[k]);
    }
  }

  /// n / 2 + 1 complex numbers to n real ones; the imaginary parts of the
  /// first, and of the last of an even length, are not looked at.
  void backward(Number *x, double *out) {
    x[0] = x[0].real();
    if (!isEven) {
      buffer[0] = x[0];
      for (int64_t k = 1; k <= n / 2; ++k) {
        buffer[k] = x[k];
        buffer[n - k] = std::conj(x[k]);
      }
      complex.run(buffer.data());
      for (int64_t j = 0; j < n; ++j)
        out[j] = buffer[j].real();
      return;
    }
    int64_t half = n / 2;
    x[half] = x[half].real();
    for (int64_t k = 0; k < half; ++k) {
      Number mirror = std::conj(x[half - k]);
      buffer[k] = x[k] + mirror + timesI(multiply(x[k] - mirror, roots[k]));
    }
    complex.run(buffer.data());
    for (int64_t j = 0; j < half; ++j) {
      out[2 * j] = buffer[j].real();
      out[2 * j + 1] = buffer[j].imag();
    }
  }

private:
  int64_t n;
  bool isEven;
  Transform complex;
  std::vector<Number> roots, buffer;
};

/// An array's elements, as in `buddy_array`.
template <class T> struct Elements {
  explicit Elements(const buddy_array *array)
      : data(static_cast<T *>(array->data)),
        sizes(array->extents, array->extents + array->rank),
        strides(array->extents + array->rank,
                array->extents + 2 * array->rank) {}
  /// Row-major memory of these sizes.
  Elements(std::vector<T> &memory, const std::vector<int64_t> &sizes)
      : sizes(sizes), strides(sizes.size()) {
    int64_t count = 1;
    for (int64_t dim = sizes.size() - 1; dim >= 0; --dim) {
      strides[dim] = count;
      count *= sizes[dim];
    }
    memory.resize(count);
    data = memory.data();
  }

  T *data;
  std::vector<int64_t> sizes, strides;
};

/// Calls `function` with the first elements of each pair of lines along a
/// dimension of two arrays, whose other sizes are equal.
template <class A, class B, class Function>
void forEachLine(const Elements<A> &a, const Elements<B> &b, int64_t line,
                 Function function) {
  int64_t rank = a.sizes.size();
  std::vector<int64_t> at(rank, 0);
  A *first = a.data;
  B *second = b.data;
  for (int64_t size : a.sizes)
    if (size == 0)
      return;
  for (;;) {
    function(first, second);
    int64_t dim = rank - 1;
    for (; dim >= 0; --dim) {
      if (dim == line)
        continue;
      first += a.strides[dim];
      second += b.strides[dim];
      if (++at[dim] < a.sizes[dim])
        break;
      first -= at[dim] * a.strides[dim];
      second -= at[dim] * b.strides[dim];
      at[dim] = 0;
    }
    if (dim < 0)
      return;
  }
}

template <class T>
void transformLines(const Elements<T> &from, const Elements<T> &to, int64_t dim,
                    bool forward, double scale) {
  int64_t n = from.sizes[dim];
  if (n == 0)
    return;
  Transform transform(n, forward);
  std::vector<Number> line(n);
  forEachLine(from, to, dim, [&](const T *x, T *y) {
    for (int64_t j = 0; j < n; ++j)
      line[j] = Number(x[j * from.strides[dim]]);
    transform.run(line.data());
    for (int64_t k = 0; k < n; ++k)
      y[k * to.strides[dim]] = T(scale * line[k]);
  });
}

/// Transforms along the dimensions of a set of bits, `from` into `to`; true if
/// there is one.
template <class T>
bool transformAll(Elements<T> from, const Elements<T> &to, int64_t dims,
                  bool forward, double scale) {
  bool any = false;
  for (size_t dim = 0; dim < to.sizes.size(); ++dim) {
    if (!(dims >> dim & 1))
      continue;
    transformLines(any ? to : from, to, dim, forward, any ? 1.0 : scale);
    any = true;
  }
  return any;
}
} // namespace

/// Complex to complex, along the dimensions whose bits are set in `dims`.
BUDDY_MATH_EXPORT void buddy_fourier_c2c(const buddy_array *x, int64_t dims,
                                         int64_t forward, double scale,
                                         buddy_array *y) {
  dispatch(y, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_floating_point_v<T>) {
      Elements<T> from(x), to(y);
      if (!transformAll(from, to, dims, forward, scale) && !to.sizes.empty())
        forEachLine(from, to, 0, [&](const T *a, T *b) {
          for (int64_t j = 0; j < to.sizes[0]; ++j)
            b[j * to.strides[0]] = T(scale * Number(a[j * from.strides[0]]));
        });
    }
  });
}

/// Real to complex along `last`, forward, then along the dimensions of the bits
/// of `dims`; `y` has all of the transform or, along `last`, half of it.
BUDDY_MATH_EXPORT void buddy_fourier_r2c(const buddy_array *x, int64_t last,
                                         int64_t dims, double scale,
                                         buddy_array *y) {
  dispatch(x, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      Elements<T> from(x);
      Elements<std::complex<T>> to(y);
      int64_t n = from.sizes[last], wanted = to.sizes[last];
      if (n == 0)
        return;
      RealTransform transform(n, true);
      std::vector<double> line(n);
      std::vector<Number> half(n / 2 + 1);
      forEachLine(from, to, last, [&](const T *a, std::complex<T> *b) {
        for (int64_t j = 0; j < n; ++j)
          line[j] = a[j * from.strides[last]];
        transform.forward(line.data(), half.data());
        for (int64_t k = 0; k < wanted; ++k) {
          Number value = k <= n / 2 ? half[k] : std::conj(half[n - k]);
          b[k * to.strides[last]] = std::complex<T>(scale * value);
        }
      });
      transformAll(to, to, dims, true, 1.0);
    }
  });
}

/// Half of a complex array to a real one, backward: along the dimensions of
/// the bits of `dims`, then along `last`, whose size is that of `y`.
BUDDY_MATH_EXPORT void buddy_fourier_c2r(const buddy_array *x, int64_t last,
                                         int64_t dims, double scale,
                                         buddy_array *y) {
  dispatch(y, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      Elements<std::complex<T>> from(x);
      Elements<T> to(y);
      std::vector<std::complex<T>> memory;
      if (dims) {
        Elements<std::complex<T>> between(memory, from.sizes);
        transformAll(from, between, dims, false, 1.0);
        from = between;
      }
      int64_t n = to.sizes[last];
      int64_t given = std::min(from.sizes[last], n / 2 + 1);
      if (n == 0)
        return;
      RealTransform transform(n, false);
      std::vector<Number> half(n / 2 + 1);
      std::vector<double> line(n);
      forEachLine(to, from, last, [&](T *b, const std::complex<T> *a) {
        for (int64_t k = 0; k < given; ++k)
          half[k] = Number(a[k * from.strides[last]]);
        std::fill(half.begin() + given, half.end(), Number());
        transform.backward(half.data(), line.data());
        for (int64_t j = 0; j < n; ++j)
          b[j * to.strides[last]] = T(scale * line[j]);
      });
    }
  });
}
