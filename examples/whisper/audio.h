//===- audio.h - Sound files as the model hears them ------------*- C++ -*-===//
//
// libsndfile reads the file, libsamplerate changes its rate.
//
//===----------------------------------------------------------------------===//

#ifndef WHISPER_AUDIO_H
#define WHISPER_AUDIO_H

#include "buddy/Context.h"
#include "buddy/Error.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <samplerate.h>
#include <sndfile.h>
#include <string>
#include <vector>

inline constexpr int SampleRate = 16000;
/// Longer files are refused: twelve hours at the model's rate are 2.8 GB.
inline constexpr int64_t MostSeconds = 12 * 3600;

/// The mean of a file's channels at 16 kHz, -1 … 1.  Throws buddy::Error that
/// names the file.
inline std::vector<float> readSound(const std::string &path) {
  SF_INFO info{};
  std::unique_ptr<SNDFILE, int (*)(SNDFILE *)> file(
      sf_open(path.c_str(), SFM_READ, &info), sf_close);
  if (!file)
    throw buddy::Error(BUDDY_E_IO, path + ": " + sf_strerror(nullptr));
  if (info.samplerate < 1000 || info.samplerate > 768000 || info.channels < 1)
    throw buddy::Error(BUDDY_E_FORMAT,
                       path + ": " + std::to_string(info.channels) +
                           " channels at " + std::to_string(info.samplerate) +
                           " Hz cannot be read; expected 1000 to 768000 Hz");
  // Frame by frame: the number of frames in the header may be a lie.
  std::vector<float> mono, block(size_t(info.channels) * 4096);
  while (sf_count_t frames = sf_readf_float(file.get(), block.data(), 4096)) {
    for (sf_count_t i = 0; i < frames; ++i) {
      float sum = 0;
      for (int c = 0; c < info.channels; ++c)
        sum += block[i * info.channels + c];
      mono.push_back(std::isfinite(sum) ? sum / info.channels : 0.0f);
    }
    if (int64_t(mono.size()) > MostSeconds * info.samplerate)
      throw buddy::Error(BUDDY_E_ARGUMENT,
                         path + ": longer than 12 hours; cut it into parts");
  }
  if (sf_error(file.get()))
    throw buddy::Error(BUDDY_E_FORMAT, path + ": " + sf_strerror(file.get()));
  if (mono.empty())
    throw buddy::Error(BUDDY_E_FORMAT, path + ": no sound in it");
  if (info.samplerate == SampleRate)
    return mono;
  double ratio = double(SampleRate) / info.samplerate;
  std::vector<float> result(size_t(std::ceil(mono.size() * ratio)) + 1);
  SRC_DATA data{};
  data.data_in = mono.data();
  data.input_frames = long(mono.size());
  data.data_out = result.data();
  data.output_frames = long(result.size());
  data.src_ratio = ratio;
  if (int code = src_simple(&data, SRC_SINC_MEDIUM_QUALITY, 1))
    throw buddy::Error(BUDDY_E_FORMAT, path + ": " + src_strerror(code));
  result.resize(data.output_frames_gen);
  return result;
}

#endif // WHISPER_AUDIO_H
