//===- image.h - JPEG and PNG files as arrays of pixels -------------------===//
//
// What an image file may be: JPEG in grey or colour, PNG of any kind.  All of
// them become 8-bit RGB, as Pillow's `Image.open(path).convert("RGB")` makes
// it: grey is copied to three channels, an alpha channel is left out, 16 bits
// are rounded to 8.  An orientation in Exif data is not looked at.
//
//===----------------------------------------------------------------------===//

#ifndef RESNET_IMAGE_H
#define RESNET_IMAGE_H

#include "buddy/Error.h"
#include "buddy/MappedFile.h"
#include "buddy/MemRef.h"

#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <png.h>
#include <string>
#include <string_view>
#include <turbojpeg.h>

/// [height, width, 3]: red, green, blue.
using Image = buddy::MemRef<uint8_t, 3>;

/// More are not decoded: a file of some bytes can claim any size.
inline constexpr int64_t MostPixels = 100'000'000;

namespace image_detail {

[[noreturn]] inline void fail(const buddy::MappedFile &file,
                              const std::string &what) {
  throw buddy::Error(BUDDY_E_FORMAT, file.path() + ": " + what);
}

inline const unsigned char *bytes(const buddy::MappedFile &file) {
  return reinterpret_cast<const unsigned char *>(file.data());
}

inline Image makeImage(const buddy::MappedFile &file, int64_t width,
                       int64_t height) {
  if (width > MostPixels / height)
    fail(file, std::to_string(width) + " x " + std::to_string(height) +
                   " pixels; at most " + std::to_string(MostPixels) +
                   " can be read");
  return Image({height, width, 3});
}

inline Image decodeJpeg(const buddy::MappedFile &file) {
  std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(),
                                                   tjDestroy);
  auto failed = [&] {
    fail(file, std::string("damaged JPEG: ") + tjGetErrorStr2(decoder.get()));
  };
  int width = 0, height = 0, subsampling = 0, space = 0;
  if (!decoder || tjDecompressHeader3(decoder.get(), bytes(file), file.size(),
                                      &width, &height, &subsampling, &space))
    failed();
  if (width == 0)
    fail(file, "damaged JPEG: there is no image in it");
  if (space == TJCS_CMYK || space == TJCS_YCCK)
    fail(file, "JPEG of four inks (CMYK); convert it to RGB");
  Image image = makeImage(file, width, height);
  // The transform of Pillow; the limit is on scans, each of which takes the
  // time of a whole image.
  if (tjDecompress2(decoder.get(), bytes(file), file.size(), image.data(),
                    width, 0, height, TJPF_RGB,
                    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS)) {
    std::string_view text = tjGetErrorStr2(decoder.get());
    if (tjGetErrorCode(decoder.get()) != TJERR_WARNING ||
        text.find("remature end") != text.npos)
      failed();
    std::cerr << file.path() << ": " << text << "\n";
  }
  return image;
}

inline Image decodePng(const buddy::MappedFile &file) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  std::unique_ptr<png_image, void (*)(png_image *)> guard(&png, png_image_free);
  if (!png_image_begin_read_from_memory(&png, file.data(), file.size()))
    fail(file, std::string("damaged PNG: ") + png.message);
  Image image = makeImage(file, png.width, png.height);
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; // as 8-bit files are
  bool alpha = png.format & PNG_FORMAT_FLAG_ALPHA;
  png.format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  buddy::MemRef<uint8_t, 1> pixels;
  if (alpha)
    pixels = buddy::MemRef<uint8_t, 1>({int64_t(PNG_IMAGE_SIZE(png))});
  uint8_t *target = alpha ? pixels.data() : image.data();
  if (!png_image_finish_read(&png, nullptr, target, 0, nullptr))
    fail(file, std::string("damaged PNG: ") + png.message);
  if (alpha)
    for (int64_t i = 0, e = image.numElements() / 3; i < e; ++i)
      std::memcpy(image.data() + 3 * i, target + 4 * i, 3);
  return image;
}

} // namespace image_detail

/// Throws buddy::Error with one line that names the file.
inline Image readImage(const std::string &path) {
  using namespace std::string_view_literals;
  buddy::MappedFile file(path);
  auto startsWith = [&](std::string_view magic) {
    return file.contents().substr(0, magic.size()) == magic;
  };
  if (startsWith("\xff\xd8\xff"sv))
    return image_detail::decodeJpeg(file);
  if (startsWith("\x89PNG\r\n\x1a\n"sv))
    return image_detail::decodePng(file);
  image_detail::fail(file, "neither JPEG nor PNG");
}

#endif // RESNET_IMAGE_H
