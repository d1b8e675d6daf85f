// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Runs the fuzz target of the shim on the corpus, and on some random changes of
// good inputs, for compilers without libFuzzer.

#include "cc/tests/tier_fuzz.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace tf_malleable {
namespace tier {
namespace {

constexpr int kInputs = 2000;

class Mutator {
 public:
  std::string Mutate(std::string data, const std::string& other) {
    for (size_t count = 1 + Below(4); count > 0; --count) {
      const size_t at = Below(data.size() + 1);
      switch (Below(4)) {
        case 0:
          data.insert(at, 1, static_cast<char>(Below(256)));
          break;
        case 1:
          data.erase(at, Below(64));
          break;
        case 2:
          data.insert(at, other.substr(Below(other.size()), Below(64)));
          break;
        default:
          if (at < data.size()) data[at] = static_cast<char>(Below(256));
      }
    }
    return data;
  }

  size_t Below(size_t end) {
    return std::uniform_int_distribution<size_t>(0, end - 1)(random_);
  }

 private:
  std::mt19937_64 random_{1};  // The same inputs in each run.
};

// Adds the inputs in the folder that CMake names.
void AddCorpus(std::vector<std::string>* inputs) {
  const char* const folder = getenv("TIER_FUZZ_CORPUS");
  if (folder == nullptr) return;  // Bazel's tests see no folder of others.
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path(), std::ios::binary);
    inputs->emplace_back(std::istreambuf_iterator<char>(in),
                         std::istreambuf_iterator<char>());
    ASSERT_FALSE(inputs->back().empty()) << file.path();
  }
}

TEST(TierFuzzTest, TheShimKeepsItsRules) {
  std::vector<std::string> seeds = FuzzSeeds();
  AddCorpus(&seeds);
  for (const std::string& seed : seeds) FuzzOne(seed);
  Mutator mutator;
  for (int i = 0; i < kInputs; ++i) {
    const std::string& seed = seeds[mutator.Below(seeds.size())];
    const std::string& other = seeds[mutator.Below(seeds.size())];
    // The first byte says which kind of input it is.
    FuzzOne(seed[0] + mutator.Mutate(seed.substr(1), other));
  }
}

}  // namespace
}  // namespace tier
}  // namespace tf_malleable
