// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/openmp/openmp.h"

#include <string.h>

#include "cc/openmp/blas.h"
#include "cc/openmp/hook.h"
#include "cc/openmp/limit.h"
#include "cc/openmp/runtime.h"

#define TFM_EXPORT __attribute__((visibility("default")))

using tf_malleable::openmp::Caller;
using tf_malleable::openmp::Class;

namespace {

const char* NameOf(Class how) {
  switch (how) {
    case Class::kFree:
      return "free";
    case Class::kFreeToShrink:
      return "shrink";
    case Class::kAtOperations:
      return "operations";
    case Class::kConfined:
      break;
  }
  return "confined";
}

}  // namespace

extern "C" {

TFM_EXPORT void tfm_openmp_set_limit(int threads) {
  tf_malleable::openmp::SetWord(threads);
  tf_malleable::openmp::FollowInBlasSoon();
}

TFM_EXPORT int tfm_openmp_limit(void) { return tf_malleable::openmp::Limit(); }

TFM_EXPORT int tfm_openmp_capacity(void) {
  return tf_malleable::openmp::Capacity();
}

TFM_EXPORT size_t tfm_openmp_callers(char* text, size_t size) {
  size_t used = 0;
  const auto add = [&](const char* name, const char* path) {
    const size_t length = strlen(name) + strlen(path) + 2;
    if (used + length > size) return;
    char* end = stpcpy(text + used, name);
    *end++ = ' ';
    end = stpcpy(end, path);
    *end = '\n';
    used += length;
  };
  for (const Caller* const* each = tf_malleable::openmp::Callers();
       *each != nullptr; ++each) {
    const Caller& caller = **each;
    const bool is_following = tf_malleable::openmp::CanFollow(caller);
    add(NameOf(is_following ? caller.how : Class::kConfined), caller.path);
  }
  for (int i = 0; const char* path = tf_malleable::openmp::BlasPath(i); ++i) {
    add(NameOf(Class::kAtOperations), path);
  }
  return used;
}

}  // extern "C"
