#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "durable/file.h"

// Files of records: redo logs and snapshots. A head, then records one after another, each with its number, its length
// and its checksums; the header of a record has a checksum of its own, so that a flipped byte, wherever it is, is told
// from an end that was never written. docs/durable_format.md has the bytes.
namespace flota {

using Parts = std::initializer_list<std::span<const std::byte>>;

enum class FileKind : uint32_t { kLog = 1, kSnapshot = 2 };

// What a file begins with.
struct FileHead {
  static constexpr size_t kBytes = 64;

  FileKind kind = FileKind::kLog;
  uint64_t generation = 0;
  uint32_t index = 0;  // of the server, among `count`
  uint32_t count = 1;
  uint64_t folder = 0;  // a random number: files of one folder have the same

  std::array<std::byte, kBytes> encode() const;
  // kMalformed: no such head.
  static Result<FileHead> decode(std::span<const std::byte> bytes);
};

// The last record of a file that was ended: its payload is empty, and its number says how many came before it.
inline constexpr uint8_t kEndRecord = 63;

inline constexpr size_t kRecordHeadBytes = 24;
constexpr size_t padded_record(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// A record as it is written: its head, its parts, zeros up to a multiple of eight bytes. The parts must stay where they
// are. The payload's checksum is made at once, the head when its number is known.
class EncodedRecord {
 public:
  EncodedRecord(uint8_t kind, Parts parts);
  // What to write, in all bytes() of it; good until the next call.
  std::span<iovec> numbered(uint64_t number);
  uint64_t bytes() const { return kRecordHeadBytes + padded_record(length_); }

 private:
  static constexpr size_t kMaxParts = 14;

  uint8_t kind_;
  uint64_t length_ = 0;
  uint32_t checksum_ = 0;
  size_t count_ = 0;
  std::array<std::byte, kRecordHeadBytes> head_{};
  std::array<std::span<const std::byte>, kMaxParts> parts_;
  std::array<iovec, kMaxParts + 2> vectors_{};
};

struct Record {
  uint8_t kind = 0;
  uint64_t number = 0;  // from 0 on
  uint64_t offset = 0;  // of its head in the file
  std::span<const std::byte> payload;
};

// Reads a file from its head to its end. Memory: one record, or a megabyte. Thread safety: the caller's.
class RecordReader {
 public:
  // Bytes of the file from an offset on, as many as there are.
  using Source = std::function<Result<size_t>(uint64_t offset, std::span<std::byte> into)>;

  // `name` is the file's, for errors.
  RecordReader(Source source, uint64_t size, std::string name);

  // kMalformed: no head, or not of this kind.
  Result<FileHead> head(FileKind kind);
  // The next record, good until the next call; none at the end. kMalformed: the file is damaged, and how. Requires:
  // head() gave one.
  Result<std::optional<Record>> next();

  // The record that next() gave last is none that can be used: as if it had not been read.
  void put_back(const Record& record) {
    at_ = record.offset;
    number_ = record.number;
  }
  // Whether nothing but zeros is left, or nothing: what a file that was being made may hold after the machine died.
  Result<bool> only_zeros_left();

  // After next() gave none: whether the file was cut in the middle of a record, which was never answered for then.
  bool torn() const { return torn_; }
  // Where the last whole record ends, and how many there are up to it.
  uint64_t end() const { return at_; }
  uint64_t records() const { return number_; }
  uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }

 private:
  // At least `wanted` bytes from `at_` on, or as many as there are.
  Result<std::span<const std::byte>> look(size_t wanted);
  Error damage(const std::string& what) const;

  Source source_;
  uint64_t size_;
  std::string name_;
  std::vector<std::byte> buffer_;
  uint64_t buffer_at_ = 0;
  size_t buffered_ = 0;
  uint64_t at_ = 0;
  uint64_t number_ = 0;
  bool torn_ = false;
};

// Of a file on disk.
Result<RecordReader> read_records(const std::filesystem::path& path);

// Writes a snapshot: buffered, and to the disk as it goes, so that little is left for the end. Thread safety: the
// caller's. Requires: the file outlives it.
class RecordWriter {
 public:
  explicit RecordWriter(const File& file);
  void begin(const FileHead& head);
  Result<void> write(uint8_t kind, Parts parts);
  // The end, and all of it on the disk.
  Result<void> finish();

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  void put(std::span<const std::byte> bytes);
  Result<void> flush();
  // Has the disk write what it was not told of yet, if that is much.
  void begin_to_sync();

  const File& file_;
  std::vector<std::byte> buffer_;
  uint64_t at_ = 0;        // of the buffer in the file
  uint64_t begun_at_ = 0;  // up to here the disk was told to write
  uint64_t number_ = 0;
};

}  // namespace flota
