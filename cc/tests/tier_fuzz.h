// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Fuzz target of the shim. Thread-safety: one thread at a time.

#ifndef TF_MALLEABLE_CC_TESTS_TIER_FUZZ_H_
#define TF_MALLEABLE_CC_TESTS_TIER_FUZZ_H_

#include <string>
#include <vector>

namespace tf_malleable {
namespace tier {

// Returns good inputs, which lead a fuzzer to others.
std::vector<std::string> FuzzSeeds();

// Has the shim read an input. Ends the process if the shim breaks a rule.
void FuzzOne(const std::string& input);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TESTS_TIER_FUZZ_H_
