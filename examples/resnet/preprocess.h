//===- preprocess.h - An image as the network was trained to see it -------===//
//
// torchvision's transforms for ImageNet: the short side becomes 256 pixels,
// bilinear with antialiasing; the middle 224 x 224 of that are cut out, and
// each channel is normalised.  The resized pixels are those of Pillow, bit for
// bit (its Resample.c: separable, weights in fixed point, rounded to 8 bits
// after either pass), which is what torchvision runs on an image file.
//
//===----------------------------------------------------------------------===//

#ifndef RESNET_PREPROCESS_H
#define RESNET_PREPROCESS_H

#include "image.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

inline constexpr int64_t ShortSide = 256, CropSide = 224;

namespace preprocess_detail {

inline constexpr int WeightBits = 22;

/// The source pixels from `first` on that make one pixel of the result.
struct Taps {
  int64_t first;
  std::vector<int32_t> weights; ///< Of WeightBits bits after the point.
};

/// For pixels [start, start + CropSide) of a line that is resized from `from`
/// to `to` pixels.
inline std::vector<Taps> makeTaps(int64_t from, int64_t to, int64_t start) {
  // A triangle over the neighbours; where the line shrinks, over all the
  // pixels that fall into one, so that none is left out.
  double scale = double(from) / to, support = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (int64_t i = start; i < start + CropSide; ++i) {
    double centre = (i + 0.5) * scale;
    int64_t first = std::max<int64_t>(int64_t(centre - support + 0.5), 0);
    int64_t last = std::min(int64_t(centre + support + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      double distance = std::abs((x - centre + 0.5) * (1.0 / support));
      weights.push_back(std::max(1.0 - distance, 0.0));
      sum += weights.back();
    }
    Taps taps{first, {}};
    for (double weight : weights)
      taps.weights.push_back(int32_t(0.5 + weight / sum * (1 << WeightBits)));
    all.push_back(std::move(taps));
  }
  return all;
}

/// One pixel's channel; neighbours lie `stride` bytes apart from `source` on.
inline uint8_t blend(const Taps &taps, const uint8_t *source, int64_t stride) {
  int32_t sum = 1 << (WeightBits - 1);
  for (size_t i = 0; i < taps.weights.size(); ++i)
    sum += taps.weights[i] * source[int64_t(i) * stride];
  return uint8_t(std::min(sum >> WeightBits, 255));
}

/// Where the crop starts in a line of `size` pixels: half a pixel goes to the
/// even side, as Python rounds.
inline int64_t cropStart(int64_t size) {
  return int64_t(std::nearbyint((size - CropSide) / 2.0));
}

} // namespace preprocess_detail

/// The middle of the resized image, [CropSide, CropSide, 3].
inline Image resizeAndCrop(const Image &image) {
  using namespace preprocess_detail;
  int64_t height = image.size(0), width = image.size(1);
  auto resized = [shorter = double(std::min(width, height))](int64_t size) {
    return size == shorter ? ShortSide : int64_t(ShortSide * size / shorter);
  };
  int64_t newWidth = resized(width), newHeight = resized(height);
  auto columns = makeTaps(width, newWidth, cropStart(newWidth));
  auto rows = makeTaps(height, newHeight, cropStart(newHeight));

  // First along the lines, and only those lines that the crop is made of.
  int64_t firstRow = rows.front().first;
  int64_t endRow = rows.back().first + int64_t(rows.back().weights.size());
  Image narrow({endRow - firstRow, CropSide, 3}),
      result({CropSide, CropSide, 3});
  for (int64_t y = 0; y < narrow.size(0); ++y)
    for (int64_t x = 0; x < CropSide; ++x)
      for (int64_t c = 0; c < 3; ++c)
        narrow(y, x, c) =
            blend(columns[x], &image(firstRow + y, columns[x].first, c), 3);
  for (int64_t y = 0; y < CropSide; ++y)
    for (int64_t x = 0; x < CropSide; ++x)
      for (int64_t c = 0; c < 3; ++c)
        result(y, x, c) = blend(
            rows[y], &narrow(rows[y].first - firstRow, x, c), 3 * CropSide);
  return result;
}

/// The network's input, [1, 3, CropSide, CropSide].
inline buddy::MemRef<float, 4> preprocess(const Image &image) {
  static constexpr float Mean[] = {0.485f, 0.456f, 0.406f};
  static constexpr float Deviation[] = {0.229f, 0.224f, 0.225f};
  Image pixels = resizeAndCrop(image);
  buddy::MemRef<float, 4> input({1, 3, CropSide, CropSide});
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < CropSide; ++y)
      for (int64_t x = 0; x < CropSide; ++x)
        input(0, c, y, x) =
            (float(pixels(y, x, c)) / 255.0f - Mean[c]) / Deviation[c];
  return input;
}

#endif // RESNET_PREPROCESS_H
