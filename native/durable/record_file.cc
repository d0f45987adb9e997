#include "durable/record_file.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "common/check.h"
#include "common/checksum.h"

namespace flota {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and so must be the host");

constexpr char kMagic[8] = {'F', 'L', 'O', 'T', 'A', 'D', 'U', 'R'};
constexpr uint32_t kFormatVersion = 2;
constexpr uint32_t kRecordMagic = 0x464c5200;  // "FLR" and the kind
constexpr size_t kReadBytes = size_t{1} << 20;
// The disk is told to write so many bytes at a time, and waited for when two such stretches are under way: a snapshot
// that filled the page cache would make the log wait for it.
constexpr uint64_t kStretchBytes = uint64_t{8} << 20;

template <class T>
void put_at(std::span<std::byte> bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

template <class T>
T get_at(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

}  // namespace

std::array<std::byte, FileHead::kBytes> FileHead::encode() const {
  std::array<std::byte, kBytes> bytes{};
  std::memcpy(bytes.data(), kMagic, sizeof(kMagic));
  put_at(bytes, 8, kFormatVersion);
  put_at(bytes, 12, static_cast<uint32_t>(kind));
  put_at(bytes, 16, generation);
  put_at(bytes, 24, index);
  put_at(bytes, 28, count);
  put_at(bytes, 32, folder);
  put_at(bytes, 60, crc32c(std::span(bytes).first(60)));
  return bytes;
}

Result<FileHead> FileHead::decode(std::span<const std::byte> bytes) {
  auto malformed = [](const char* what) { return Error{ErrorCode::kMalformed, what}; };
  if (bytes.size() < kBytes) return malformed("it is shorter than a head");
  if (std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) return malformed("byte 0: it does not begin as one");
  if (crc32c(bytes.first(60)) != get_at<uint32_t>(bytes, 60)) return malformed("byte 0: its head is damaged");
  if (get_at<uint32_t>(bytes, 8) != kFormatVersion) {
    return Error{ErrorCode::kVersion, "it has format version " + std::to_string(get_at<uint32_t>(bytes, 8)) +
                                          ", and this flota reads version " + std::to_string(kFormatVersion)};
  }
  return FileHead{static_cast<FileKind>(get_at<uint32_t>(bytes, 12)), get_at<uint64_t>(bytes, 16),
                  get_at<uint32_t>(bytes, 24), get_at<uint32_t>(bytes, 28), get_at<uint64_t>(bytes, 32)};
}

EncodedRecord::EncodedRecord(uint8_t kind, Parts parts) : kind_(kind) {
  static constexpr std::byte kZeros[8] = {};
  FLOTA_CHECK(parts.size() < kMaxParts, "a record of too many parts");
  for (const auto& part : parts) {
    if (part.empty()) continue;
    parts_[count_++] = part;
    length_ += part.size();
    checksum_ = crc32c(part, checksum_);
  }
  if (const size_t padding = padded_record(length_) - length_; padding > 0) {
    parts_[count_++] = {kZeros, padding};
    checksum_ = crc32c(parts_[count_ - 1], checksum_);
  }
}

std::span<iovec> EncodedRecord::numbered(uint64_t number) {
  put_at(std::span(head_), 0, kRecordMagic | kind_);
  put_at(std::span(head_), 4, static_cast<uint32_t>(number));
  put_at(std::span(head_), 8, length_);
  put_at(std::span(head_), 16, checksum_);
  put_at(std::span(head_), 20, crc32c(std::span(head_).first(20)));
  vectors_[0] = {head_.data(), head_.size()};
  for (size_t i = 0; i < count_; ++i) {
    vectors_[i + 1] = {const_cast<std::byte*>(parts_[i].data()), parts_[i].size()};
  }
  return std::span(vectors_).first(count_ + 1);
}

RecordReader::RecordReader(Source source, uint64_t size, std::string name)
    : source_(std::move(source)), size_(size), name_(std::move(name)) {}

Error RecordReader::damage(const std::string& what) const {
  return {ErrorCode::kMalformed, name_ + " is damaged at byte " + std::to_string(at_) + ", in record " +
                                     std::to_string(number_) + ": " + what};
}

Result<std::span<const std::byte>> RecordReader::look(size_t wanted) {
  wanted = static_cast<size_t>(std::min<uint64_t>(wanted, size_ - at_));
  const uint64_t buffer_end = buffer_at_ + buffered_;
  if (at_ < buffer_at_ || at_ + wanted > buffer_end) {
    // What is here already is not read again.
    const size_t kept = at_ >= buffer_at_ && at_ < buffer_end ? static_cast<size_t>(buffer_end - at_) : 0;
    if (kept > 0) std::memmove(buffer_.data(), buffer_.data() + (at_ - buffer_at_), kept);
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(std::max(wanted, kReadBytes), size_ - at_));
    if (buffer_.size() < bytes) buffer_.resize(bytes);
    buffer_at_ = at_;
    buffered_ = kept;
    FLOTA_ASSIGN(const size_t got, source_(at_ + kept, std::span(buffer_).first(bytes).subspan(kept)));
    buffered_ += got;
    if (buffered_ < wanted) return Error{ErrorCode::kSystem, name_ + " became shorter while it was read"};
  }
  return std::span<const std::byte>(buffer_).subspan(static_cast<size_t>(at_ - buffer_at_), wanted);
}

Result<bool> RecordReader::only_zeros_left() {
  const uint64_t begin = at_;
  bool zeros = true;
  while (zeros && at_ < size_) {
    auto bytes = look(kReadBytes);
    if (!bytes) {
      at_ = begin;
      return bytes.error();
    }
    zeros = std::all_of(bytes->begin(), bytes->end(), [](std::byte byte) { return byte == std::byte{0}; });
    at_ += bytes->size();
  }
  at_ = begin;
  return zeros;
}

Result<FileHead> RecordReader::head(FileKind kind) {
  FLOTA_ASSIGN(auto bytes, look(FileHead::kBytes));
  auto head = FileHead::decode(bytes);
  if (!head) return head.error().with(name_);
  if (head->kind != kind) {
    return Error{ErrorCode::kMalformed, name_ + " is no " + (kind == FileKind::kLog ? "redo log" : "snapshot")};
  }
  at_ = FileHead::kBytes;
  return head;
}

Result<std::optional<Record>> RecordReader::next() {
  if (at_ == size_) return std::optional<Record>();
  FLOTA_ASSIGN(auto head, look(kRecordHeadBytes));
  if (head.size() < kRecordHeadBytes) {
    torn_ = true;
    return std::optional<Record>();
  }
  if (get_at<uint32_t>(head, 20) != crc32c(head.first(20))) {
    FLOTA_ASSIGN(torn_, only_zeros_left());
    if (torn_) return std::optional<Record>();
    return damage("the checksum of its head is wrong");
  }
  const auto magic = get_at<uint32_t>(head, 0);
  const auto length = get_at<uint64_t>(head, 8);
  const auto checksum = get_at<uint32_t>(head, 16);
  if ((magic & ~0xffu) != kRecordMagic) return damage("no record begins there");
  if (get_at<uint32_t>(head, 4) != static_cast<uint32_t>(number_)) return damage("it has another record's number");
  const uint64_t room = size_ - at_ - kRecordHeadBytes;
  if (length > room || padded_record(length) > room) {
    torn_ = true;
    return std::optional<Record>();
  }
  const size_t bytes = kRecordHeadBytes + padded_record(length);
  FLOTA_ASSIGN(auto whole, look(bytes));
  const auto payload = whole.subspan(kRecordHeadBytes);
  if (crc32c(payload) != checksum) return damage("the checksum of what it holds is wrong");
  Record record{static_cast<uint8_t>(magic & 0xff), number_, at_, payload.first(length)};
  at_ += bytes;
  ++number_;
  return std::optional<Record>(record);
}

Result<RecordReader> read_records(const std::filesystem::path& path) {
  FLOTA_ASSIGN(File opened, File::open(path, O_RDONLY));
  FLOTA_ASSIGN(const uint64_t size, opened.size());
  // The kernel reads ahead of who reads from front to back.
  posix_fadvise(opened.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
  auto file = std::make_shared<File>(std::move(opened));
  return RecordReader([file](uint64_t offset, std::span<std::byte> into) { return file->read_at(offset, into); }, size,
                      path.string());
}

RecordWriter::RecordWriter(const File& file) : file_(file) { buffer_.reserve(kBufferBytes); }

void RecordWriter::begin(const FileHead& head) { put(head.encode()); }

Result<void> RecordWriter::write(uint8_t kind, Parts parts) {
  EncodedRecord record(kind, parts);
  const auto vectors = record.numbered(number_++);
  if (record.bytes() >= kBufferBytes / 8) {
    // Not worth another copy.
    FLOTA_TRY(flush());
    FLOTA_TRY(file_.write_at(at_, vectors));
    at_ += record.bytes();
    begin_to_sync();
    return {};
  }
  if (buffer_.size() + record.bytes() > kBufferBytes) FLOTA_TRY(flush());
  for (const iovec& part : vectors) put({static_cast<const std::byte*>(part.iov_base), part.iov_len});
  return {};
}

void RecordWriter::put(std::span<const std::byte> bytes) { buffer_.insert(buffer_.end(), bytes.begin(), bytes.end()); }

Result<void> RecordWriter::flush() {
  iovec part{buffer_.data(), buffer_.size()};
  if (!buffer_.empty()) FLOTA_TRY(file_.write_at(at_, {&part, 1}));
  at_ += buffer_.size();
  buffer_.clear();
  begin_to_sync();
  return {};
}

void RecordWriter::begin_to_sync() {
  if (at_ - begun_at_ < kStretchBytes) return;
  // Best effort: a file system that does not know it writes when it likes.
  sync_file_range(file_.fd(), static_cast<off_t>(begun_at_), static_cast<off_t>(at_ - begun_at_),
                  SYNC_FILE_RANGE_WRITE);
  if (begun_at_ >= kStretchBytes) {
    sync_file_range(file_.fd(), 0, static_cast<off_t>(begun_at_ - kStretchBytes),
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  begun_at_ = at_;
}

Result<void> RecordWriter::finish() {
  FLOTA_TRY(write(kEndRecord, {}));
  FLOTA_TRY(flush());
  return file_.sync();
}

}  // namespace flota
