// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The number of threads that one thread's teams have in one OpenMP runtime, for
// the length of an operation. Without I/O: what the runtime and the limit say
// are arguments.

#ifndef TF_MALLEABLE_CC_OPENMP_LATCH_H_
#define TF_MALLEABLE_CC_OPENMP_LATCH_H_

namespace tf_malleable {
namespace openmp {

class Latch {
 public:
  constexpr Latch()
      : number_(0),
        bound_(0),
        first_(0),
        told_(0),
        told_bound_(0),
        operation_(0),
        is_asked_(false) {}

  // Returns the number that the runtime is to have.
  //
  //   current: the runtime's number now.
  //   operation: the thread's operation; a new limit is adopted if it is new.
  //   limit: the limit now.
  //   bound: upper bound of a thread that has set none itself.
  //   has_gil: whether the operations are known. If not, the number does not
  //     exceed the runtime's first one, and stays once the program has asked.
  int Adopt(int current, unsigned operation, int limit, int bound,
            bool has_gil) {
    if (first_ == 0) {
      first_ = current;
      operation_ = operation - 1;
    } else if (current != number_) {
      SetByOthers(current);
      // What has just been set holds for the rest of the operation.
      if (operation_ == operation) return number_ = current;
    }
    number_ = current;
    if (operation_ == operation || (is_asked_ && !has_gil)) return number_;
    operation_ = operation;
    number_ = Min(limit, bound_ > 0 ? bound_ : bound);
    if (!has_gil) number_ = Min(number_, first_);
    return number_;
  }

  // The program sets the number itself: an upper bound from now on.
  void SetByProgram(int threads) { bound_ = number_ = threads; }

  // The program has told the runtime a number itself, as SetByOthers() finds
  // out if nobody says so. With bound 0 there is none from now on.
  void SetDirectly(int threads, int bound) {
    number_ = threads;
    bound_ = bound;
    told_ = 0;
  }

  // A library sets the number for itself: no bound.
  void SetByLibrary(int threads) { number_ = threads; }

  // The program asks for the number, and may plan for it.
  void Ask() { is_asked_ = true; }

  // The upper bound that this thread has been given; 0 if none.
  int bound() const { return bound_; }

 private:
  static int Min(int a, int b) { return a < b ? a : b; }

  // Somebody has called the runtime directly and has not said so. When they are
  // done they set the number that they were told.
  void SetByOthers(int current) {
    if (told_ == current) {
      bound_ = told_bound_;
      told_ = 0;
      return;
    }
    if (told_ == 0) {
      told_ = number_;
      told_bound_ = bound_;
    }
    bound_ = current;
  }

  int number_;      // The runtime's number, as last seen or set; 0 at first.
  int bound_;       // The program's upper bound; 0 if none.
  int first_;       // The runtime's number at first.
  int told_;        // The number before others have set one; 0 if none has.
  int told_bound_;  // The bound before that.
  unsigned operation_;
  bool is_asked_;
};

}  // namespace openmp
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OPENMP_LATCH_H_
