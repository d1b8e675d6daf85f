// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Width of an op: the number of pieces into which its work is divided.

#ifndef TF_MALLEABLE_CC_LIMITS_OP_WIDTH_H_
#define TF_MALLEABLE_CC_LIMITS_OP_WIDTH_H_

namespace tf_malleable {

// An op asks for its width several times: to size buffers, to look up a plan,
// to make one and to run it. A plan must not run on more threads than it was
// made for, nor a loop on more than there are buffers. So its first request
// decides, and the answer stays the same until the thread begins its next op,
// whatever the limit becomes meanwhile.
//
// An op may run others on its own thread: a function call, an iterator of
// tf.data. Then the inner op begins, and the answer of the outer one is lost.
// No op of TensorFlow is known that runs others and also asks for its width.
//
// Thread-safety: all methods may be called from any thread; each thread has its
// own op.
class OpWidth {
 public:
  // Notes that this thread begins an op.
  static void Begin();

  // Returns the limit under which this thread's op began: `now` if this is the
  // op's first request. REQUIRES: now >= 0; if it is 0, nothing is decided.
  static int Latch(int now);

  // Whether no limit has changed since this thread's op began, so that whatever
  // the op has read about limits is still true.
  static bool LimitsAreSame();
};

// Returns the width of a plan for `limit` threads. A library keeps a plan for
// each width, and users may set many limits, so from 17 on there are eight
// widths for each power of two. The width is rounded down, as one piece too
// many would need a second round.
// REQUIRES: limit >= 0
int PlanWidth(int limit);

// tensorflow::FactoryKeyCreator::Append: the width of the plan that this
// thread's op asks for. TensorFlow keeps oneDNN's plans by a key in which it is
// missing, as it never changes in stock TensorFlow. Declared here, not in
// hooks.h, as mkl_util.h includes it: a header that needs no other.
int PlanKey();

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_OP_WIDTH_H_
