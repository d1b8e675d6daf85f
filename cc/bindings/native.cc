// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The C ABI for Python. Whether the overlay or a patched TensorFlow provides it
// is decided at run time: `load` opens the library and looks up the functions.
// Python checks the arguments and words the errors.

#include <dlfcn.h>
#include <link.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cc/capi/tfm.h"

namespace py = pybind11;

namespace {

struct Abi {
  decltype(&tfm_abi_version) abi_version = nullptr;
  decltype(&tfm_backend) backend = nullptr;
  decltype(&tfm_tensorflow_version) tensorflow_version = nullptr;
  decltype(&tfm_set_threads) set_threads = nullptr;
  decltype(&tfm_get_threads) get_threads = nullptr;
  decltype(&tfm_set_pool_threads) set_pool_threads = nullptr;
  decltype(&tfm_get_pools) get_pools = nullptr;
  decltype(&tfm_wait_settled) wait_settled = nullptr;
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) {
    throw py::import_error(std::string("cannot find the function ") + name +
                           ": " + dlerror());
  }
}

// Set once by Load, with the GIL held; afterwards, only read.
std::optional<Abi> loaded;

const Abi& Loaded() {
  if (!loaded) throw std::logic_error("load() has not been called");
  return *loaded;
}

// Returns the address and the path at which the dynamic loader has loaded the
// library with this name or path; nothing if it is not loaded in this process.
// /proc/self/maps cannot tell: a file mapped to be read looks the same.
std::optional<std::pair<std::uintptr_t, py::object>> Locate(
    const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return std::nullopt;
  link_map* loaded_as = nullptr;
  std::optional<std::pair<std::uintptr_t, py::object>> location;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &loaded_as) == 0) {
    location.emplace(loaded_as->l_addr,
                     py::reinterpret_steal<py::object>(
                         PyUnicode_DecodeFSDefault(loaded_as->l_name)));
  }
  dlclose(handle);
  return location;
}

// Returns true if the library is loaded in this process and exports the ABI.
bool Exports(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  const bool found = dlsym(handle, "tfm_abi_version") != nullptr;
  dlclose(handle);
  return found;
}

// Loads the library that provides the ABI. With `in_front`, libraries loaded
// later bind to its functions instead of their own. The overlay relies on that.
// TensorFlow's framework must not be loaded like this: its BoringSSL would
// replace Python's OpenSSL.
void Load(const std::string& library, bool in_front) {
  void* const handle =
      dlopen(library.c_str(), RTLD_NOW | (in_front ? RTLD_GLOBAL : RTLD_LOCAL));
  if (handle == nullptr) throw py::import_error(dlerror());
  Abi abi;
  Find(handle, "tfm_abi_version", &abi.abi_version);
  if (abi.abi_version() != TFM_ABI_VERSION) {
    throw py::import_error(library + " has ABI version " +
                           std::to_string(abi.abi_version()) + ", not " +
                           std::to_string(TFM_ABI_VERSION));
  }
  Find(handle, "tfm_backend", &abi.backend);
  Find(handle, "tfm_tensorflow_version", &abi.tensorflow_version);
  Find(handle, "tfm_set_threads", &abi.set_threads);
  Find(handle, "tfm_get_threads", &abi.get_threads);
  Find(handle, "tfm_set_pool_threads", &abi.set_pool_threads);
  Find(handle, "tfm_get_pools", &abi.get_pools);
  Find(handle, "tfm_wait_settled", &abi.wait_settled);
  loaded = abi;
}

tfm_threads GetThreads() {
  tfm_threads threads = {};
  threads.size = sizeof(threads);
  Loaded().get_threads(&threads);
  return threads;
}

std::vector<tfm_pool> GetPools() {
  const Abi& abi = Loaded();
  int count = 0;
  abi.get_pools(nullptr, 0, &count);
  // Pools may be built meanwhile: ask again if there are more than fit.
  for (;;) {
    const int room = count + 8;
    tfm_pool blank = {};
    blank.size = sizeof(blank);
    std::vector<tfm_pool> pools(room, blank);
    abi.get_pools(pools.data(), room, &count);
    if (count > room) continue;
    pools.resize(count);
    return pools;
  }
}

// A plain C function instead of one of pybind11's. If a daemon thread asks for
// the GIL after the interpreter has ended, Python ends the thread there, and
// that must not unwind frames with destructors or exception handlers.
PyObject* WaitSettled(PyObject* /*module*/, PyObject* timeout) {
  const double seconds = PyFloat_AsDouble(timeout);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (!loaded) {
    PyErr_SetString(PyExc_RuntimeError, "load() has not been called");
    return nullptr;
  }
  const auto wait_settled = loaded->wait_settled;
  int result = TFM_SUCCESS;
  Py_BEGIN_ALLOW_THREADS;
  result = wait_settled(seconds);
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(result);
}

PyMethodDef wait_settled_definition = {
    "wait_settled", WaitSettled, METH_O,
    "Waits until no pool has more active workers than its limit."};

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "The tfm_* C ABI; see cc/capi/tfm.h.";

  m.attr("SUCCESS") = static_cast<int>(TFM_SUCCESS);
  m.attr("NO_CHANGE") = static_cast<int>(TFM_NO_CHANGE);
  m.attr("TIMED_OUT") = static_cast<int>(TFM_TIMED_OUT);
  m.attr("ERR_RANGE") = static_cast<int>(TFM_ERR_RANGE);
  m.attr("ERR_NO_POOL") = static_cast<int>(TFM_ERR_NO_POOL);
  m.attr("KEEP") = static_cast<int>(TFM_KEEP);
  m.attr("UNSET") = static_cast<int>(TFM_UNSET);

  py::class_<tfm_threads>(m, "Threads")
      .def_readonly("intra", &tfm_threads::intra)
      .def_readonly("inter", &tfm_threads::inter)
      .def_readonly("intra_set", &tfm_threads::intra_set)
      .def_readonly("inter_set", &tfm_threads::inter_set)
      .def_readonly("intra_max", &tfm_threads::intra_max)
      .def_readonly("inter_max", &tfm_threads::inter_max);

  py::class_<tfm_pool>(m, "Pool")
      .def_readonly("id", &tfm_pool::id)
      .def_property_readonly("name",
                             [](const tfm_pool& p) {
                               return py::bytes(p.name).attr("decode")(
                                   "utf-8", "replace");
                             })
      .def_readonly("kind", &tfm_pool::kind)
      .def_readonly("capacity", &tfm_pool::capacity)
      .def_readonly("limit", &tfm_pool::limit)
      .def_readonly("active", &tfm_pool::active)
      .def_readonly("queued", &tfm_pool::queued)
      .def_readonly("tasks", &tfm_pool::tasks)
      .def_readonly("stand_ins", &tfm_pool::stand_ins)
      .def_readonly("busy_seconds", &tfm_pool::busy_seconds);

  m.def("locate", &Locate, py::arg("library"));
  m.def("exports", &Exports, py::arg("library"));
  m.def("load", &Load, py::arg("library"), py::kw_only(), py::arg("in_front"));
  m.def("backend", [] { return Loaded().backend(); });
  m.def("tensorflow_version", [] { return Loaded().tensorflow_version(); });
  m.def(
      "set_threads",
      [](int intra, int inter) { return Loaded().set_threads(intra, inter); },
      py::arg("intra"), py::arg("inter"));
  m.def("get_threads", &GetThreads);
  m.def(
      "set_pool_threads",
      [](uint64_t id, int limit) {
        return Loaded().set_pool_threads(id, limit);
      },
      py::arg("pool"), py::arg("limit"));
  m.def("get_pools", &GetPools);
  m.add_object("wait_settled",
               py::reinterpret_steal<py::object>(
                   PyCFunction_New(&wait_settled_definition, nullptr)));
}
