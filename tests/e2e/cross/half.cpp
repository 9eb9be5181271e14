//===- half.cpp - Rounds numbers by the run-time library's functions ------===//
//
//   half < f64 numbers > for each the bits of: f16 of the f64, f16 of the f32,
//                        bf16 of the f64, bf16 of the f32, f32 of the f16
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {
float __extendhfsf2(_Float16);
_Float16 __truncsfhf2(float);
_Float16 __truncdfhf2(double);
__bf16 __truncsfbf2(float);
__bf16 __truncdfbf2(double);
}

template <typename T> static uint32_t bitsOf(T value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

int main() {
  for (double x; std::fread(&x, sizeof(x), 1, stdin) == 1;) {
    const float f = static_cast<float>(x);
    const uint32_t bits[] = {bitsOf(__truncdfhf2(x)), bitsOf(__truncsfhf2(f)),
                             bitsOf(__truncdfbf2(x)), bitsOf(__truncsfbf2(f)),
                             bitsOf(__extendhfsf2(__truncdfhf2(x)))};
    std::fwrite(bits, sizeof(bits), 1, stdout);
  }
}
