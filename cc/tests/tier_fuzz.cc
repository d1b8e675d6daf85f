// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Fuzz target of the shim: what others write and it reads. These are the lines
// of its variable and of the daemon's state, paths of programs, flags of the
// state, attributes of copies, and block maps. libFuzzer chooses the input
// (make fuzz), or tier_fuzz_test.cc.

#include "cc/tests/tier_fuzz.h"

#include <sys/xattr.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cc/tests/tier_test.h"
#include "cc/tier/identity.h"
#include "cc/tier/lookup.h"

namespace tf_malleable {
namespace tier {
namespace {

// Ends the process: a fuzzer keeps the input that led there.
void Require(bool condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "the shim broke a rule: %s\n", what);
  abort();
}

// Removes and returns the text up to the next zero.
std::string TakeText(std::string* data) {
  const size_t end = std::min(data->find('\0'), data->size());
  std::string text = data->substr(0, end);
  data->erase(0, std::min(end + 1, data->size()));
  return text;
}

bool IsBelow(const std::string& path, const char* folder) {
  const std::string begin = std::string(folder) + "/";
  return path.compare(0, begin.size(), begin) == 0;
}

void FuzzSettings(std::string data) {
  std::string variable = TakeText(&data);
  std::string state_text = TakeText(&data);
  Settings settings;
  ParseVariable(variable.data(), 1234, &settings);
  ParseStateText(state_text.data(), &settings);
  if (!settings.is_on) return;
  Key key;
  if (!key.Find(settings, TakeText(&data).c_str())) return;
  const std::string found(key.key(), key.size());
  Require(found == key.key(), "a key has no zero");
  bool is_below = false;
  for (int i = 0; i < settings.roots_size; ++i) {
    is_below |= IsBelow(found, settings.roots[i].daemon_path);
  }
  Require(is_below, "a key is below a source");
  for (const char* bad : {"//", "/./", "/../"}) {
    Require((found + "/").find(bad) == std::string::npos, "a key is normal");
  }
  for (const Folder* folder :
       {&settings.private_copies, &settings.public_copies}) {
    const char* const path = key.In(*folder);
    Require(path == nullptr || IsBelow(path, folder->path),
            "the path of a copy is in the store");
  }
}

constexpr int64_t kSize = 3 * kSmallFileBytes;
constexpr size_t kReadBytes = 65536;

// The shim of this process, its source and its store.
class FuzzedShim : public TierTest {
 public:
  static FuzzedShim& Get() {
    static FuzzedShim* const shim = new FuzzedShim;
    return *shim;
  }

  // Another file is in the store as the part, so that a read tells from which
  // of the two each byte is.
  void FuzzMap(std::string map) {
    // Such a read would wait for the daemon, which takes long.
    constexpr size_t kFetching = offsetof(MapHeader, fetching);
    if (map.size() > kFetching && map[kFetching] == 1) map[kFetching] = 0;
    std::ofstream(Map(path_), std::ios::binary) << map;
    std::ofstream(Part(path_), std::ios::binary) << part_;
    const int fd = Open(path_, LookupResult::kPartialCopy);
    std::string read(kReadBytes, '\0');
    // The first read creates the reader's map, from the second one on the
    // daemon's is found.
    for (const int64_t at : {int64_t{0}, int64_t{777}, kSize - 1234}) {
      const ssize_t got = Read(fd, read.data(), read.size(), at);
      Require(got == std::min<int64_t>(kReadBytes, kSize - at),
              "a read returns what there is");
      for (ssize_t i = 0; i < got; ++i) {
        const bool is_there = at + i < static_cast<int64_t>(part_.size());
        Require(
            read[i] == data_[at + i] || (is_there && read[i] == part_[at + i]),
            "a read returns bytes of the file or of the part");
      }
    }
    Close(fd);
    Receive();
    unlink(Map(path_).c_str());
    unlink(Part(path_).c_str());
  }

  void FuzzAttribute(const std::string& value) {
    std::ofstream(copy_) << "copy";
    setxattr(copy_.c_str(), kSourceAttribute, value.data(), value.size(), 0);
    Key key;
    Require(key.Find(shim.settings, path_.c_str()), "the file has a key");
    LookupResult result;
    const int fd = LookUpCopy(&key, path_.c_str(), 0, &result);
    struct statx now;
    Identity identity;
    memcpy(&identity, value.data(), std::min(value.size(), sizeof(identity)));
    Require(fd < 0 || (value.size() == sizeof(identity) &&
                       statx(AT_FDCWD, path_.c_str(), 0, STATX_BASIC_STATS,
                             &now) == 0 &&
                       IsSameVersion(identity, now)),
            "a copy is used only if it is of the present version");
    close(fd);
    unlink(copy_.c_str());
  }

  // The head of a good map and the value of a good attribute, to begin with.
  std::string good_map() const { return good_map_; }
  std::string good_attribute() const {
    return good_map_.substr(offsetof(MapHeader, identity), sizeof(Identity));
  }

 private:
  FuzzedShim() {
    SetUpTestSuite();
    atexit([] { TearDownTestSuite(); });
    path_ = Make("fuzzed", kSize);
    data_ = Contents(path_);
    part_ = data_;
    for (char& c : part_) c = static_cast<char>(~c);
    copy_ = shim.settings.private_copies.path + path_;
    for (size_t slash = copy_.find('/', shim.settings.private_copies.size + 1);
         slash != std::string::npos; slash = copy_.find('/', slash + 1)) {
      mkdir(copy_.substr(0, slash).c_str(), 0755);
    }
    const int fd = Open(path_);
    char byte;
    Read(fd, &byte, 1, 0);
    good_map_ = Receive().at(0).FileContents(1);
    good_map_.resize(kMapHeaderBytes);
    Close(fd);
    Receive();
  }

  void TestBody() override {}

  std::string path_, copy_, data_, part_, good_map_;
};

}  // namespace

std::vector<std::string> FuzzSeeds() {
  const FuzzedShim& fuzzed = FuzzedShim::Get();
  std::string present = fuzzed.good_map() + std::string(700, kPresent);
  const auto text = [](const std::string& variable, const std::string& state,
                       const std::string& path) {
    return "s" + variable + '\0' + state + '\0' + path;
  };
  return {text("socket=/s", "store=/st\nsource=/a\nsource=/b", "/b/./c//d"),
          text("socket=/s\nstore=/m\nsource=/x\nas=/a/y\ncounts=/c",
               "store=/st\nsource=/a", "/x/f"),
          "m" + present, "m" + present.substr(0, 300),
          "a" + fuzzed.good_attribute()};
}

void FuzzOne(const std::string& input) {
  if (input.empty()) return;
  const std::string data = input.substr(1);
  switch (input[0]) {
    case 's':
      return FuzzSettings(data);
    case 'm':
      return FuzzedShim::Get().FuzzMap(data);
    case 'a':
      return FuzzedShim::Get().FuzzAttribute(data);
  }
}

}  // namespace tier
}  // namespace tf_malleable

// Writes the seeds to the corpus, the last word of the command.
extern "C" int LLVMFuzzerInitialize(int* size, char*** words) {
  int number = 0;
  for (const std::string& seed : tf_malleable::tier::FuzzSeeds()) {
    std::ofstream((*words)[*size - 1] + ("/seed-" + std::to_string(number++)),
                  std::ios::binary)
        << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tf_malleable::tier::FuzzOne(
      std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
