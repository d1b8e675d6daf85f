// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/checksum.h"

#include <string.h>

namespace tf_malleable {
namespace tier {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320;  // CRC-32, reflected.
constexpr size_t kStepBytes = 8;

// Tables for kStepBytes bytes at a time: table n has the effect of a byte that
// n other bytes follow.
struct Tables {
  uint32_t of[kStepBytes][256];
};

constexpr Tables Make() {
  Tables tables = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t code = i;
    for (int bit = 0; bit < 8; ++bit) {
      code = code >> 1 ^ (code & 1 ? kPolynomial : 0);
    }
    tables.of[0][i] = code;
  }
  for (size_t step = 1; step < kStepBytes; ++step) {
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t code = tables.of[step - 1][i];
      tables.of[step][i] = code >> 8 ^ tables.of[0][code & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = Make();

}  // namespace

uint32_t Checksum(uint32_t before, const char* data, size_t size) {
  uint32_t code = ~before;
  for (; size >= kStepBytes; size -= kStepBytes, data += kStepBytes) {
    uint32_t low, high;
    memcpy(&low, data, sizeof(low));
    memcpy(&high, data + sizeof(low), sizeof(high));
    low ^= code;
    code = kTables.of[7][low & 255] ^ kTables.of[6][low >> 8 & 255] ^
           kTables.of[5][low >> 16 & 255] ^ kTables.of[4][low >> 24] ^
           kTables.of[3][high & 255] ^ kTables.of[2][high >> 8 & 255] ^
           kTables.of[1][high >> 16 & 255] ^ kTables.of[0][high >> 24];
  }
  for (; size > 0; --size, ++data) {
    code = code >> 8 ^
           kTables.of[0][(code ^ static_cast<unsigned char>(*data)) & 255];
  }
  return ~code;
}

}  // namespace tier
}  // namespace tf_malleable
