// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The number of the operation that a thread is in. A thread adopts a new limit
// only from one operation to the next, so that all that one operation plans for
// a number of threads is carried out with that number.
//
// A Python program's operation begins where a C extension gives up the GIL, and
// ends where it takes it back. If an operation calls Python, which calls
// another operation, the inner one belongs to the outer one: its frames are
// deeper in the stack.

#ifndef TF_MALLEABLE_CC_OPENMP_OPERATION_H_
#define TF_MALLEABLE_CC_OPENMP_OPERATION_H_

#include <cstdint>

namespace tf_malleable {
namespace openmp {

class Operation {
 public:
  constexpr Operation() : frame_(0), number_(0), has_gil_(false) {}

  // The thread gives up the GIL in the function with this frame.
  void Begin(std::uintptr_t frame) {
    has_gil_ = true;
    if (frame + kSlack < frame_) return;
    ++number_;
    frame_ = frame;
  }

  // The thread takes the GIL back.
  void End(std::uintptr_t frame) {
    has_gil_ = true;
    if (frame + kSlack < frame_) return;
    ++number_;
    frame_ = 0;
  }

  // An outermost region of a thread that has never had the GIL has ended.
  void EndRegion() {
    if (!has_gil_) ++number_;
  }

  // Whether operations of this thread are known by the GIL.
  bool has_gil() const { return has_gil_; }
  unsigned number() const { return number_; }

 private:
  // What releases the GIL and takes it back, constructor and destructor of one
  // object, may have frames of other sizes; an interpreter needs more.
  static constexpr std::uintptr_t kSlack = 512;

  std::uintptr_t frame_;  // Of the operation that is open; 0 if none.
  unsigned number_;
  bool has_gil_;
};

}  // namespace openmp
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OPENMP_OPERATION_H_
