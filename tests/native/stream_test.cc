// One suite for every transport: what Stream promises, each keeps.
#include "wire/stream.h"

#include <boost/mpl/list.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "transports.h"

using namespace flota;
using namespace flota::testing;

namespace {

using Bytes = std::vector<std::byte>;
using Transports = boost::mpl::list<Tcp, Unix, Tls, SharedMemory>;

bool gone(ErrorCode code) { return code == ErrorCode::kUnavailable || code == ErrorCode::kCancelled; }

// Runs `other` on a thread of its own beside `mine`; what it returns comes back.
template <class Other, class Mine>
auto beside(Other other, Mine mine) {
  decltype(other()) result = Error{ErrorCode::kSystem, "did not run"};
  std::thread thread([&] { result = other(); });
  mine();
  thread.join();
  return result;
}

double seconds_since(Deadline::Clock::time_point start) {
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stream, *boost::unit_test::timeout(240))

BOOST_AUTO_TEST_CASE_TEMPLATE(messages_of_every_size_are_echoed, Transport, Transports) {
  const size_t sizes[] = {1,       7,       8,       63,      4096,          65'535,  65'536,    65'537, 262'143,
                          262'144, 262'145, 300'000, 1 << 20, (1 << 20) + 1, 3 << 20, 5'000'011, 1,      2};
  auto [client, server] = Transport::ends();
  auto echoed = beside(
      [&, &server = server]() -> Result<void> {
        for (size_t size : sizes) {
          Bytes message(size);
          FLOTA_TRY(server->read(message, patience()));
          FLOTA_TRY(send_bytes(*server, message));
        }
        return {};
      },
      [&, &client = client] {
        for (size_t size : sizes) {
          const Bytes message = sample(size);
          value_of(send_bytes(*client, message));
          Bytes back(size);
          value_of(client->read(back, patience()));
          BOOST_TEST_REQUIRE((back == message), size << " bytes came back changed");
        }
      });
  value_of(echoed);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bytes_written_in_place_are_read_in_place, Transport, Transports) {
  auto [client, server] = Transport::ends();
  const Bytes all = sample(3'000'000);
  auto sent = beside(
      [&, &client = client]() -> Result<void> {
        std::mt19937_64 random(1);
        for (size_t at = 0; at < all.size();) {
          const size_t count = std::min(all.size() - at, static_cast<size_t>(random() % (Stream::kChunk + 1)));
          if (random() % 4 == 0) {
            FLOTA_TRY(client->write(std::span(all).subspan(at, count), patience()));
          } else {
            FLOTA_ASSIGN(auto room, client->reserve(count, patience()));
            std::memcpy(room.data(), all.data() + at, count);
            client->commit(count);
          }
          at += count;
        }
        return client->flush(patience());
      },
      [&, &server = server] {
        std::mt19937_64 random(2);
        Bytes back;
        while (back.size() < all.size()) {
          const size_t left = all.size() - back.size();
          if (random() % 4 == 0) {
            Bytes part(std::min(left, static_cast<size_t>(random() % 200'000)));
            value_of(server->read(part, patience()));
            back.insert(back.end(), part.begin(), part.end());
          } else {
            const auto part =
                value_of(server->peek(std::min(left, static_cast<size_t>(random() % Stream::kChunk)), patience()));
            back.insert(back.end(), part.begin(), part.end());
            server->consume(part.size());
          }
        }
        BOOST_TEST((back == all));
      });
  value_of(sent);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_was_shown_is_shown_again_until_it_is_consumed, Transport, Transports) {
  auto [client, server] = Transport::ends();
  const Bytes message = sample(1000);
  value_of(send_bytes(*client, message));
  for (size_t count : {10, 1000, 500, 0}) {
    const auto shown = value_of(server->peek(count, patience()));
    BOOST_TEST(std::equal(shown.begin(), shown.end(), message.begin(), message.begin() + static_cast<long>(count)));
  }
  value_of(server->peek(1000, patience()));
  server->consume(400);
  const auto rest = value_of(server->peek(600, patience()));
  BOOST_TEST(std::equal(rest.begin(), rest.end(), message.begin() + 400, message.end()));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(as_much_as_the_limit_says_can_be_shown_at_once, Transport, Transports) {
  auto [client, server] = Transport::ends();
  const size_t limit = server->peek_limit();
  BOOST_TEST_REQUIRE(limit >= Stream::kChunk);
  const Bytes message = sample(limit + 100);
  auto sent = beside([&, &client = client] { return send_bytes(*client, message); },
                     [&, &server = server] {
                       Bytes head(100);  // so that the rest begins in the middle of the buffer
                       value_of(server->read(head, patience()));
                       const auto shown = value_of(server->peek(limit, patience()));
                       BOOST_TEST(std::equal(shown.begin(), shown.end(), message.begin() + 100, message.end()));
                     });
  value_of(sent);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(ten_thousand_small_messages_arrive_in_order, Transport, Transports) {
  auto [client, server] = Transport::ends();
  constexpr uint64_t kMessages = 10'000;
  auto sent = beside(
      [&, &client = client]() -> Result<void> {
        for (uint64_t i = 0; i < kMessages; ++i) {
          const uint64_t words[3] = {i, i * 3, ~i};
          FLOTA_TRY(client->write(std::as_bytes(std::span(words)).first(8 + i % 3 * 8), patience()));
          if (i % 16 == 0) FLOTA_TRY(client->flush(patience()));
        }
        return client->flush(patience());
      },
      [&, &server = server] {
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < kMessages; ++i) {
          uint64_t words[3] = {i, i * 3, ~i};
          uint64_t back[3] = {i, i * 3, ~i};
          auto target = std::as_writable_bytes(std::span(back)).first(8 + i % 3 * 8);
          std::memset(target.data(), 0, target.size());
          value_of(server->read(target, patience()));
          wrong += std::memcmp(words, back, sizeof(words)) != 0;
        }
        BOOST_TEST(wrong == 0u);
      });
  value_of(sent);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_question_and_its_answer_a_thousand_times, Transport, Transports) {
  auto [client, server] = Transport::ends();
  auto answered = beside(
      [&, &server = server]() -> Result<void> {
        for (int i = 0; i < 1000; ++i) {
          uint64_t number = 0;
          FLOTA_TRY(server->read(std::as_writable_bytes(std::span(&number, 1)), patience()));
          ++number;
          FLOTA_TRY(send_bytes(*server, std::as_bytes(std::span(&number, 1))));
        }
        return {};
      },
      [&, &client = client] {
        uint64_t number = 0;
        for (int i = 0; i < 1000; ++i) {
          value_of(send_bytes(*client, std::as_bytes(std::span(&number, 1))));
          value_of(client->read(std::as_writable_bytes(std::span(&number, 1)), patience()));
        }
        BOOST_TEST(number == 1000u);
      });
  value_of(answered);
}

// --- deadlines ---

BOOST_AUTO_TEST_CASE_TEMPLATE(waiting_for_bytes_ends_at_the_deadline, Transport, Transports) {
  for (bool by_peek : {true, false}) {
    auto [client, server] = Transport::ends();
    value_of(send_bytes(*client, sample(5)));
    Bytes ten(10);
    const auto start = Deadline::Clock::now();
    const ErrorCode code = by_peek ? code_of(server->peek(10, Deadline::after(kSoon)))
                                   : code_of(server->read(ten, Deadline::after(kSoon)));
    BOOST_TEST(code == ErrorCode::kDeadline);
    BOOST_TEST(seconds_since(start) >= 0.05);
    BOOST_TEST(seconds_since(start) < 5);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_deadline_that_has_passed_still_gives_what_is_there, Transport, Transports) {
  auto [client, server] = Transport::ends();
  value_of(send_bytes(*client, sample(100)));
  value_of(server->peek(100, patience()));
  BOOST_TEST(value_of(server->peek(100, Deadline::after(milliseconds(0)))).size() == 100u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(waiting_for_room_ends_at_the_deadline, Transport, Transports) {
  for (bool in_place : {true, false}) {
    auto [client, server] = Transport::ends();
    const Bytes chunk(Stream::kChunk);
    ErrorCode code = kNoError;
    const auto start = Deadline::Clock::now();
    // The kernel's buffers take some megabytes.
    for (size_t sent = 0; code == kNoError && sent < size_t{1} << 28; sent += chunk.size()) {
      const Deadline deadline = Deadline::after(kSoon);
      if (in_place) {
        auto room = client->reserve(chunk.size(), deadline);
        code = code_of(room);
        if (room) client->commit(room->size());
      } else {
        code = code_of(client->write(chunk, deadline));
      }
    }
    BOOST_TEST(code == ErrorCode::kDeadline);
    BOOST_TEST(seconds_since(start) < 10);
  }
}

// A peer that takes a little now and then must not keep a writer beyond its deadline.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_slow_reader_does_not_stretch_a_writers_deadline, Transport, Transports) {
  auto ends = Transport::ends();
  std::atomic<bool> writing{true};
  const Bytes much(size_t{96} << 20);
  auto drained = beside(
      [&]() -> Result<void> {
        const auto give_up = Deadline::after(std::chrono::seconds(6));
        while (writing.load() && !give_up.passed()) {
          FLOTA_TRY(ends.server->peek(1, patience()));
          Bytes part(40'000);
          FLOTA_TRY(ends.server->read(part, patience()));
          std::this_thread::sleep_for(milliseconds(20));  // the slowness itself
        }
        ends.server.reset();
        return {};
      },
      [&] {
        const auto start = Deadline::Clock::now();
        const auto status = ends.client->write(much, Deadline::after(milliseconds(300)));
        writing.store(false);
        BOOST_TEST(code_of(status) == ErrorCode::kDeadline);
        BOOST_TEST(seconds_since(start) < 3);
        ends.client.reset();
      });
  BOOST_TEST((drained.has_value() || gone(drained.error().code)));
}

// --- the end ---

BOOST_AUTO_TEST_CASE_TEMPLATE(the_end_of_the_peer_is_seen, Transport, Transports) {
  for (bool close_first : {true, false}) {
    auto [client, server] = Transport::ends();
    if (close_first) client->close();
    client.reset();
    const auto start = Deadline::Clock::now();
    BOOST_TEST(code_of(server->peek(1, patience())) == ErrorCode::kUnavailable);
    BOOST_TEST(seconds_since(start) < 10);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_end_of_the_peer_ends_a_wait, Transport, Transports) {
  for (int round = 0; round < 20; ++round) {
    auto ends = Transport::ends();
    std::atomic<bool> started{false};
    auto seen = beside(
        [&]() -> Result<std::span<const std::byte>> {
          started.store(true);
          return ends.server->peek(1, patience());
        },
        [&] {
          while (!started.load()) std::this_thread::yield();
          ends.client.reset();
        });
    BOOST_TEST(code_of(seen) == ErrorCode::kUnavailable);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_was_sent_before_the_end_is_still_read, Transport, Transports) {
  for (size_t size : {10, 5'000, 100'000}) {
    auto [client, server] = Transport::ends();
    const Bytes message = sample(size);
    value_of(send_bytes(*client, message));
    client.reset();
    Bytes back(size);
    value_of(server->read(back, patience()));
    BOOST_TEST((back == message));
    BOOST_TEST(code_of(server->peek(1, patience())) == ErrorCode::kUnavailable);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_message_that_ends_in_the_middle_is_an_error, Transport, Transports) {
  auto [client, server] = Transport::ends();
  value_of(send_bytes(*client, sample(10)));
  client.reset();
  BOOST_TEST(value_of(server->peek(10, patience())).size() == 10u);
  BOOST_TEST(code_of(server->peek(20, patience())) == ErrorCode::kUnavailable);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(close_from_another_thread_wakes_a_reader, Transport, Transports) {
  for (int round = 0; round < 20; ++round) {
    auto [client, server] = Transport::ends();
    std::atomic<bool> started{false};
    auto seen = beside(
        [&, &server = server]() -> Result<std::span<const std::byte>> {
          started.store(true);
          return server->peek(1, patience());
        },
        [&, &server = server] {
          while (!started.load()) std::this_thread::yield();
          for (int i = 0; i < round * 20; ++i) std::this_thread::yield();  // before, in and after its spinning
          server->close();
        });
    BOOST_TEST(gone(code_of(seen)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(close_from_another_thread_wakes_a_writer, Transport, Transports) {
  auto [client, server] = Transport::ends();
  std::atomic<size_t> written{0};
  auto seen = beside(
      [&, &client = client]() -> Result<void> {
        const Bytes chunk(Stream::kChunk);
        for (;;) {
          FLOTA_TRY(client->write(chunk, patience()));
          written.fetch_add(1);
        }
      },
      [&, &client = client] {
        // Nobody reads, so at some time it stops.
        size_t before = 0;
        do {
          before = written.load();
          std::this_thread::sleep_for(milliseconds(20));
        } while (written.load() != before || before == 0);
        client->close();
      });
  BOOST_TEST(gone(code_of(seen)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(writing_to_a_peer_that_is_gone_fails_in_the_end, Transport, Transports) {
  auto [client, server] = Transport::ends();
  server.reset();
  const Bytes chunk(Stream::kChunk);
  ErrorCode code = kNoError;
  for (int i = 0; i < 1000 && code == kNoError; ++i) code = code_of(send_bytes(*client, chunk));
  BOOST_TEST(code == ErrorCode::kUnavailable);
}

BOOST_AUTO_TEST_CASE(only_shared_memory_does_without_checksums) {
  BOOST_TEST(!Tcp::ends().client->in_memory());
  BOOST_TEST(!Unix::ends().client->in_memory());
  BOOST_TEST(!Tls::ends().client->in_memory());
  BOOST_TEST(SharedMemory::ends().client->in_memory());
}

BOOST_AUTO_TEST_SUITE_END()
