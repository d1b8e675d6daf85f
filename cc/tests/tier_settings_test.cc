// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests the settings of the shim, and the keys of paths.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {
namespace {

class TierSettingsTest : public ::testing::Test {
 protected:
  // Parses the text after the daemon's State, and more lines of the variable.
  bool Read(const std::string& state_text, const std::string& more = "") {
    text_ = "socket=/s\n" + more;
    state_text_ = state_text;
    ParseVariable(text_.data(), 1234, &settings_);
    ParseStateText(state_text_.data(), &settings_);
    return settings_.is_on;
  }

  std::string KeyOf(const std::string& path) {
    Key key;
    return key.Find(settings_, path.c_str()) ? key.key() : "";
  }

  Settings settings_;

 private:
  std::string text_;
  std::string state_text_;
};

TEST_F(TierSettingsTest, AreReadFromLines) {
  ASSERT_TRUE(
      Read("new=thing\n\nstore=/st\nsource=/a\nsource=/b", "counts=/c"));
  EXPECT_STREQ(settings_.socket, "/s");
  EXPECT_STREQ(settings_.counts, "/c");
  EXPECT_STREQ(settings_.private_copies.path, "/st/private/1234");
  EXPECT_STREQ(settings_.public_copies.path, "/st/public");
  EXPECT_STREQ(settings_.private_partials.path, "/st/growing/private/1234");
  EXPECT_EQ(settings_.roots_size, 2);
}

TEST_F(TierSettingsTest, AreOffUnlessAllIsThere) {
  EXPECT_FALSE(Read(""));
  EXPECT_FALSE(Read("store=/st"));
  EXPECT_FALSE(Read("store=/st\nsource=/a", "socket=s\nsource=/b"));
  EXPECT_FALSE(Read("store=/\nsource=/a"));
  EXPECT_FALSE(Read("store=/st\nsource=/a/"));
  EXPECT_FALSE(Read("store=/" + std::string(2000, 'x') + "\nsource=/a"));
}

TEST_F(TierSettingsTest, TheVariableNamesOnlyWhatTheDaemonHas) {
  ASSERT_TRUE(Read("store=/st\nsource=/a\nsource=/b",
                   "store=/mnt/st\nsource=/x\nas=/a/y\nsource=/b\n"
                   "source=/home\nsource=/ab\nsource=/y\nas=/home"));
  EXPECT_STREQ(settings_.public_copies.path, "/mnt/st/public");
  EXPECT_EQ(settings_.roots_size, 2);
  EXPECT_EQ(KeyOf("/x/f"), "/a/y/f");
  EXPECT_EQ(KeyOf("/b/f"), "/b/f");
  EXPECT_EQ(KeyOf("/a/f"), "");
  EXPECT_EQ(KeyOf("/home/f"), "");
  EXPECT_FALSE(Read("store=/st\nsource=/a", "source=/home"));
  for (const char* odd : {"/a/../home", "/a//y", "/a/./y", "/a/.", "/a/.."}) {
    ASSERT_TRUE(Read("store=/st\nsource=/a",
                     "source=/x\nas=" + std::string(odd) + "\nsource=/a"));
    EXPECT_EQ(KeyOf("/x/f"), "") << odd;
  }
  ASSERT_TRUE(Read("store=/st\nsource=/a", "source=/x\nas=/a/.b..c"));
  EXPECT_EQ(KeyOf("/x/f"), "/a/.b..c/f");
}

TEST_F(TierSettingsTest, APathHasAKeyIfItIsBelowASource) {
  ASSERT_TRUE(Read("store=/st\nsource=/data/set\nsource=/data2"));
  EXPECT_EQ(KeyOf("/data/set/f"), "/data/set/f");
  EXPECT_EQ(KeyOf("/data2/a/b\nc"), "/data2/a/b\nc");
  EXPECT_EQ(KeyOf("/data//set/./f"), "/data/set/f");
  EXPECT_EQ(KeyOf("//data/set/f"), "/data/set/f");
  EXPECT_EQ(KeyOf("/./data/set/.f"), "/data/set/.f");
  for (const char* other :
       {"/data/set", "/data/set/", "/data/settle/f", "/data/se", "/data", "/",
        "/etc/passwd", "/data/set/../f", "/data/set/f/", "/data/set/.",
        "/data/set/f/.", "/data/set/..", "", "data/set/f"}) {
    EXPECT_EQ(KeyOf(other), "") << other;
  }
}

TEST_F(TierSettingsTest, RelativePathsAreInTheWorkingDirectory) {
  ASSERT_TRUE(Read("store=/st\nsource=/usr/lib"));
  char before[PATH_MAX];
  ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
  ASSERT_EQ(chdir("/etc"), 0);
  EXPECT_EQ(KeyOf("lib/x"), "");
  // Far from all sources: remembered until WorkingDirectoryChanged().
  ASSERT_EQ(chdir("/usr"), 0);
  EXPECT_EQ(KeyOf("lib/x"), "");
  Key::WorkingDirectoryChanged();
  EXPECT_EQ(KeyOf("lib/x"), "/usr/lib/x");
  EXPECT_EQ(KeyOf("./lib//x"), "/usr/lib/x");
  EXPECT_EQ(KeyOf("../usr/lib/x"), "");
  ASSERT_EQ(chdir("/"), 0);
  Key::WorkingDirectoryChanged();
  EXPECT_EQ(KeyOf("usr/lib/x"), "/usr/lib/x");
  EXPECT_EQ(chdir(before), 0);
  Key::WorkingDirectoryChanged();
}

TEST_F(TierSettingsTest, PathsThatMayLeadToASourceAreLookedAt) {
  ASSERT_TRUE(Read("store=/st\nsource=/usr/lib\nsource=/usr/bin/x"));
  char before[PATH_MAX];
  ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
  for (const char* folder : {"/usr", "/"}) {
    ASSERT_EQ(chdir(folder), 0);
    Key::WorkingDirectoryChanged();
    const std::string way = folder[1] == '\0' ? "usr/" : "";
    for (int i = 0; i < 2; ++i) {  // The second time, it is remembered.
      EXPECT_EQ(KeyOf(("share/x" + way).c_str()), "");
      EXPECT_EQ(KeyOf((way + "libx/f").c_str()), "");
      EXPECT_EQ(KeyOf((way + "lib").c_str()), "");
      EXPECT_EQ(KeyOf((way + "li").c_str()), "");
      EXPECT_EQ(KeyOf((way + "lib/f").c_str()), "/usr/lib/f");
      EXPECT_EQ(KeyOf((way + "bin/x/f").c_str()), "/usr/bin/x/f");
      EXPECT_EQ(KeyOf(("./" + way + "lib/f").c_str()), "/usr/lib/f");
    }
  }
  ASSERT_EQ(chdir("/usr/lib"), 0);
  Key::WorkingDirectoryChanged();
  EXPECT_EQ(KeyOf("f"), "/usr/lib/f");
  EXPECT_EQ(chdir(before), 0);
  Key::WorkingDirectoryChanged();
}

TEST_F(TierSettingsTest, OddComponentsAreFoundAnywhere) {
  ASSERT_TRUE(Read("store=/st\nsource=/data/set"));
  for (size_t size = 1; size < 70; ++size) {
    const std::string path = "/data/set/" + std::string(size, 'x');
    EXPECT_EQ(KeyOf((path + "/y").c_str()), path + "/y");
    EXPECT_EQ(KeyOf((path + "//y").c_str()), path + "/y");
    EXPECT_EQ(KeyOf((path + "/./y").c_str()), path + "/y");
    EXPECT_EQ(KeyOf((path + "/.y").c_str()), path + "/.y");
    EXPECT_EQ(KeyOf((path + "/../y").c_str()), "");
    EXPECT_EQ(KeyOf((path + "/").c_str()), "");
  }
}

TEST_F(TierSettingsTest, ASourceMayHaveAnotherNameForTheDaemon) {
  ASSERT_TRUE(Read("store=/st\nsource=/mnt/outside\nsource=/in/x",
                   "source=/in\nas=/mnt/outside\nsource=/in/x"));
  EXPECT_EQ(KeyOf("/in/f"), "/mnt/outside/f");
  EXPECT_EQ(KeyOf("/in/x/f"), "/in/x/f");
}

TEST_F(TierSettingsTest, KeysHavePathsInTheStore) {
  ASSERT_TRUE(Read("store=/st\nsource=/a"));
  Key key;
  ASSERT_TRUE(key.Find(settings_, "/a/b"));
  EXPECT_STREQ(key.In(settings_.private_copies), "/st/private/1234/a/b");
  EXPECT_STREQ(key.In(settings_.public_copies), "/st/public/a/b");
  EXPECT_STREQ(key.key(), "/a/b");
  const std::string longest = "/a/" + std::string(4080, 'x');
  ASSERT_TRUE(key.Find(settings_, longest.c_str()));
  EXPECT_EQ(key.In(settings_.private_copies), nullptr);
  EXPECT_FALSE(key.Find(settings_, ("/a/" + std::string(5000, 'x')).c_str()));
}

TEST_F(TierSettingsTest, NamesAreHashes) {
  char name[kNameBytes];
  // Test vectors of the reference implementation.
  NameOf("", 0, name);
  EXPECT_STREQ(name, "6c62272e07bb014262b821756295c58d");
  NameOf("foobar", 6, name);
  EXPECT_STREQ(name, "343e1662793c64bf6f0d3597ba446f18");
}

}  // namespace
}  // namespace tier
}  // namespace tf_malleable
