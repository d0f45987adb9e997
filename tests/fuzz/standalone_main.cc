// Drives a fuzz target where there is no libFuzzer (g++): runs the given files and folders, then mutations of them.
//
//   frame_fuzz [-runs=N] [-seed=S] [-max_len=BYTES] [-save=FOLDER] FILE|FOLDER...
//
// The same arguments give the same inputs. An input that kills the target is written to FOLDER/crash-S-I (default: the
// current folder); give that file alone to see it again. Speaks libFuzzer's interface: LLVMFuzzerTestOneInput,
// LLVMFuzzerCustomMutator if the target has one, and LLVMFuzzerMutate for it to call.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                                unsigned seed);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Input = std::vector<uint8_t>;

std::mt19937_64 random_numbers;
std::vector<Input> pool;  // the corpus, and some of its descendants

// What is being run, for the moment it kills the process.
const uint8_t* running = nullptr;
size_t running_size = 0;
char crash_path[4096];

void save_input() {
  if (running == nullptr) return;
  const int file = open(crash_path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (file < 0) return;
  [[maybe_unused]] ssize_t ignored = write(file, running, running_size);
  close(file);
  ignored = write(STDERR_FILENO, "\ninput saved as ", 16);
  ignored = write(STDERR_FILENO, crash_path, strlen(crash_path));
  ignored = write(STDERR_FILENO, "\n", 1);
  running = nullptr;
}

void on_signal(int number) {
  save_input();
  signal(number, SIG_DFL);
  raise(number);
}

void run(const Input& input) {
  running = input.data();
  running_size = input.size();
  LLVMFuzzerTestOneInput(input.data(), input.size());
  running = nullptr;
}

uint64_t interesting() {
  static constexpr uint64_t kValues[] = {0,          1,          7,          8,          16,
                                         255,        256,        1023,       1024,       65535,
                                         65536,      1u << 20,   1u << 29,   0x7fffffff, 1u << 31,
                                         0xffffffff, 1ull << 32, 1ull << 40, 1ull << 61, 1ull << 62,
                                         1ull << 63, ~0ull,      0x7f800000, 0x7fc00000, 0x7ff0000000000000};
  const uint64_t value = kValues[random_numbers() % std::size(kValues)];
  return random_numbers() % 4 == 0 ? value + random_numbers() % 17 - 8 : value;
}

size_t place_in(size_t size) { return size == 0 ? 0 : random_numbers() % size; }

// A stretch that mostly keeps to multiples of eight, as everything on the wire does.
size_t length_of_stretch(size_t most) {
  size_t length = 1 + random_numbers() % 64;
  if (random_numbers() % 4 != 0) length = (length + 7) / 8 * 8;
  return std::min(length, most);
}

size_t aligned(size_t at) { return random_numbers() % 4 == 0 ? at : at / 8 * 8; }

void overwrite_number(uint8_t* data, size_t size) {
  const uint64_t value = interesting();
  const size_t width = size_t{1} << random_numbers() % 4;
  if (size < width) return;
  const size_t at = std::min(aligned(place_in(size)) + (random_numbers() % 2) * 4, size - width);
  std::memcpy(data + at, &value, width);
}

size_t remove_stretch(uint8_t* data, size_t size) {
  const size_t at = aligned(place_in(size));
  const size_t length = length_of_stretch(size - at);
  std::memmove(data + at, data + at + length, size - at - length);
  return size - length;
}

size_t insert_stretch(uint8_t* data, size_t size, size_t max_size) {
  const size_t length = length_of_stretch(max_size - size);
  const size_t at = aligned(place_in(size + 1));
  const size_t from = aligned(place_in(size));
  uint8_t stretch[64];
  for (size_t i = 0; i < length; ++i) {
    stretch[i] = from + i < size && size % 2 == 0 ? data[from + i] : static_cast<uint8_t>(random_numbers());
  }
  std::memmove(data + at + length, data + at, size - at);
  std::memcpy(data + at, stretch, length);
  return size + length;
}

// From some place on, another input.
size_t splice(uint8_t* data, size_t size, size_t max_size) {
  const Input& other = pool[random_numbers() % pool.size()];
  const size_t at = aligned(place_in(size + 1));
  const size_t from = random_numbers() % 2 == 0 ? 0 : aligned(place_in(other.size()));
  const size_t length = std::min(max_size - at, other.size() - from);
  if (length > 0) std::memcpy(data + at, other.data() + from, length);
  return random_numbers() % 2 == 0 ? at + length : std::max(size, at + length);
}

Input read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void load(const std::string& argument) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(argument)) {
    for (const auto& entry : std::filesystem::directory_iterator(argument)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
  } else {
    paths.emplace_back(argument);
  }
  for (const auto& path : paths) pool.push_back(read_file(path));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  if (size == 0) return splice(data, size, max_size);
  switch (random_numbers() % 8) {
    case 0:
      data[place_in(size)] ^= static_cast<uint8_t>(1u << random_numbers() % 8);
      return size;
    case 1:
      data[place_in(size)] = static_cast<uint8_t>(random_numbers());
      return size;
    case 2:
    case 3:
      overwrite_number(data, size);
      return size;
    case 4:
      return remove_stretch(data, size);
    case 5:
      return insert_stretch(data, size, max_size);
    case 6:
      return aligned(place_in(size));  // truncated
    default:
      return splice(data, size, max_size);
  }
}

int main(int argc, char** argv) {
  uint64_t runs = 0;
  uint64_t seed = 1;
  uint64_t max_length = 4096;
  std::string save = ".";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    auto is_number = [&](const char* name, uint64_t& value) {
      if (argument.rfind(name, 0) != 0) return false;
      value = std::strtoull(argument.c_str() + std::strlen(name), nullptr, 10);
      return true;
    };
    if (is_number("-runs=", runs) || is_number("-seed=", seed) || is_number("-max_len=", max_length)) continue;
    if (argument.rfind("-save=", 0) == 0) {
      save = argument.substr(6);
    } else if (argument[0] == '-' || !std::filesystem::exists(argument)) {
      std::fprintf(stderr, "usage: %s [-runs=N] [-seed=S] [-max_len=BYTES] [-save=FOLDER] FILE|FOLDER...\n", argv[0]);
      return 2;
    } else {
      load(argument);
    }
  }
  if (pool.empty()) {
    std::fprintf(stderr, "no input files given\n");
    return 2;
  }
  std::snprintf(crash_path, sizeof(crash_path), "%s/crash-%llu", save.c_str(), static_cast<unsigned long long>(seed));
  for (int number : {SIGABRT, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, on_signal);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_input);

  for (const Input& input : pool) {
    alarm(60);  // an input that takes longer has failed
    run(input);
  }
  const size_t corpus = pool.size();
  random_numbers.seed(seed);
  const auto start = std::chrono::steady_clock::now();
  double next_report = 10;
  Input input;
  for (uint64_t i = 0; i < runs; ++i) {
    input = pool[random_numbers() % pool.size()];
    size_t size = std::min(input.size(), max_length);
    input.resize(max_length);
    const auto mutation = static_cast<unsigned>(random_numbers());
    size = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(input.data(), size, max_length, mutation)
                                   : LLVMFuzzerMutate(input.data(), size, max_length);
    input.resize(size);
    // Nothing tells which inputs are worth more than others; a slowly changing pool gets further than the corpus alone.
    if (random_numbers() % 64 == 0 && size > 0) {
      if (pool.size() < 16 * corpus) {
        pool.push_back(input);
      } else {
        pool[corpus + random_numbers() % (pool.size() - corpus)] = input;
      }
    }
    run(input);
    if (i % 1024 != 0) continue;
    alarm(60);
    if (seconds_since(start) < next_report) continue;
    std::printf("%llu inputs, %.0f a second\n", static_cast<unsigned long long>(i),
                static_cast<double>(i) / seconds_since(start));
    std::fflush(stdout);
    next_report += 30;
  }
  alarm(0);
  const double seconds = seconds_since(start);
  if (runs > 0) std::printf("%.0f inputs a second\n", static_cast<double>(runs) / seconds);
  std::printf("%llu inputs, no failure\n", static_cast<unsigned long long>(corpus + runs));
  return 0;
}
