//===- Activations.h - rows that meet quantised weights ---------*- C++ -*-===//

#ifndef BUDDY_TRANSFORMS_ACTIVATIONS_H
#define BUDDY_TRANSFORMS_ACTIVATIONS_H

namespace buddy {

/// What rows of floats become where they meet quantised weights: blocks of
/// int8, or f32, the weights being dequantised.
enum class Activations { Int8, F32 };

} // namespace buddy

#endif // BUDDY_TRANSFORMS_ACTIVATIONS_H
