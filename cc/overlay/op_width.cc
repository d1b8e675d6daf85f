// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The members of TensorFlow's classes with which an op, or the key of a oneDNN
// plan, begins. They are defined by symbol name, and call TensorFlow's own: a
// constructor cannot be defined again without all that it initializes, and the
// other member is inline, in a header that needs oneDNN's headers, which the
// wheels before 2.21 lack. tests/packaging/test_declarations.py compares all of
// them with the headers of later wheels.

#include "cc/limits/op_width.h"

#include <string>
#include <string_view>

#include "cc/limits/hooks.h"
#include "cc/overlay/tensorflow_functions.h"

namespace tf_malleable {

#define TF_MALLEABLE_EXPORT extern "C" __attribute__((visibility("default")))

// tensorflow::OpKernelContext's constructors, each under its two names.
TF_MALLEABLE_EXPORT void BeginOp(void* self, void* params) asm(
    "_ZN10tensorflow15OpKernelContextC1EPNS0_6ParamsE");
TF_MALLEABLE_EXPORT void BeginOpToo(void* self, void* params) asm(
    "_ZN10tensorflow15OpKernelContextC2EPNS0_6ParamsE");
TF_MALLEABLE_EXPORT void BeginOpWith(void* self, void* params, int outputs) asm(
    "_ZN10tensorflow15OpKernelContextC1EPNS0_6ParamsEi");
TF_MALLEABLE_EXPORT void BeginOpWithToo(
    void* self, void* params,
    int outputs) asm("_ZN10tensorflow15OpKernelContextC2EPNS0_6ParamsEi");

// tensorflow::FactoryKeyCreator::Append.
TF_MALLEABLE_EXPORT void AppendToKey(void* self, std::string_view text) asm(
    "_ZN10tensorflow17FactoryKeyCreator6AppendESt17basic_string_viewIcSt11char_"
    "traitsIcEE");

extern "C" void BeginOp(void* self, void* params) {
  OpWidth::Begin();
  TensorFlowFunctions::Get().make_op_context(self, params);
}
extern "C" void BeginOpToo(void* self, void* params) { BeginOp(self, params); }

extern "C" void BeginOpWith(void* self, void* params, int outputs) {
  OpWidth::Begin();
  TensorFlowFunctions::Get().make_op_context_with(self, params, outputs);
}
extern "C" void BeginOpWithToo(void* self, void* params, int outputs) {
  BeginOpWith(self, params, outputs);
}

extern "C" void AppendToKey(void* self, std::string_view text) {
  const auto append = KernelFunctions::Get().append_to_key;
  // The key is the first member, as the header shows. The overlay is only used
  // if that header is the one that it was built with.
  if (static_cast<const std::string*>(self)->empty()) {
    const int width = PlanKey();
    append(self, std::string_view(reinterpret_cast<const char*>(&width),
                                  sizeof(width)));
  }
  append(self, text);
}

}  // namespace tf_malleable
