//===- resnet-main.cpp - What an image shows, by a ResNet of Buddy's ------===//
//
// The whole program: decode an image, make of it what the network was trained
// to see, run the network once, and print the likeliest classes.
//
// The model is a bundle (`buddy build`, resnet.py): model.h declares it,
// libmodel.so is its code and weights.safetensors its weights; labels.txt, if
// it is there, names the classes, one a line.
//
//===----------------------------------------------------------------------===//

#include "image.h"
#include "model.h"
#include "options.h"
#include "preprocess.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;

static double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

/// The lines of a file of the bundle; none if it is not there.
static std::vector<std::string> readLines(const std::string &path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  return lines;
}

/// Numbers that sum to 1 from those that the network gives.
static std::vector<double> softmax(const buddy::MemRef<float, 2> &logits) {
  double largest = *std::max_element(logits.begin(), logits.end()), sum = 0;
  std::vector<double> result;
  for (float logit : logits) {
    result.push_back(std::exp(logit - largest));
    sum += result.back();
  }
  for (double &probability : result)
    probability /= sum;
  return result;
}

static void printLikeliest(const buddy::MemRef<float, 2> &logits,
                           const std::vector<std::string> &labels,
                           size_t count) {
  auto probabilities = softmax(logits);
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, order.size());
  // Of equal ones the first class first.
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](size_t a, size_t b) {
                      return probabilities[a] != probabilities[b]
                                 ? probabilities[a] > probabilities[b]
                                 : a < b;
                    });
  for (size_t i = 0; i < count; ++i) {
    size_t number = order[i];
    std::printf("%6.2f %%  %s\n", 100 * probabilities[number],
                number < labels.size()
                    ? labels[number].c_str()
                    : ("class " + std::to_string(number)).c_str());
  }
}

static void run(const Options &options) {
  auto start = Clock::now();
  Image image = readImage(options.image);
  double decoded = millisecondsSince(start);
  auto input = preprocess(image);
  double prepared = millisecondsSince(start);

  auto model = buddy::model::Model::load(options.bundle);
  auto context = model.context(options.threads);
  buddy::MemRef<float, 2> logits(model.logitsShape());
  double loaded = millisecondsSince(start);
  model.forward(context, input, logits);
  double done = millisecondsSince(start);

  for (const auto &line : readLines(options.bundle + "/notice.txt"))
    std::cerr << "resnet: " << line << "\n";
  if (options.printLogits)
    for (float logit : logits)
      std::printf("%.9g\n", logit);
  else
    printLikeliest(logits, readLines(options.bundle + "/labels.txt"),
                   options.count);
  if (std::fflush(stdout))
    throw buddy::Error(BUDDY_E_IO, "cannot write to standard output");
  std::fprintf(stderr,
               "decode %.1f ms (%lld x %lld), resize %.1f ms, load %.1f ms, "
               "model %.1f ms\n",
               decoded, static_cast<long long>(image.size(1)),
               static_cast<long long>(image.size(0)), prepared - decoded,
               loaded - prepared, done - loaded);
}

int main(int argc, char **argv) {
  try {
    Options options = parseOptions(argc, argv);
    if (!options.help)
      run(options);
    else if (!(std::cout << Usage << std::flush))
      throw buddy::Error(BUDDY_E_IO, "cannot write to standard output");
  } catch (const std::exception &error) {
    std::cout << std::flush;
    std::cerr << "resnet: " << error.what() << "\n";
    return 1;
  }
}
