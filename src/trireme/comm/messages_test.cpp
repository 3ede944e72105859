#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/comm/on_ranks.h"

namespace trireme {
namespace {

std::span<std::byte> bytes(std::vector<int>& values) {
  return std::as_writable_bytes(std::span(values));
}

TEST(Messages, OfAPairArriveInOrder) {
  TRI_NEED_RANKS(2);
  on_ranks(2, [](Communicator& comm) {
    for (int index = 0; index < 300; ++index) {
      std::vector<int> message(static_cast<std::size_t>(index % 7), index);
      if (comm.rank() == 0) {
        comm.send(bytes(message), 1, index);
      } else {
        std::vector<int> received(message.size(), -1);
        comm.recv(bytes(received), 0, index);
        ASSERT_EQ(received, message) << index;
      }
    }
  });
}

TEST(Messages, MayBeOverwrittenOnceSent) {
  TRI_NEED_RANKS(2);
  on_ranks(2, [](Communicator& comm) {
    std::vector<int> message(1000);
    for (int index = 0; index < 100; ++index) {
      if (comm.rank() == 0) {
        message.assign(1000, index);
        comm.send(bytes(message), 1, 0);
      } else {
        comm.recv(bytes(message), 0, 0);
        ASSERT_EQ(message, std::vector<int>(1000, index));
      }
    }
  });
}

TEST(Messages, CountBytesOnTheSender) {
  TRI_NEED_RANKS(2);
  on_ranks(2, [](Communicator& comm) {
    std::vector<int> message(5);
    comm.rank() == 0 ? comm.send(bytes(message), 1, 0) : comm.recv(bytes(message), 0, 0);
    EXPECT_EQ(comm.bytes_sent(), comm.rank() == 0 ? 20 : 0);
  });
}

TEST(Messages, GoAroundARingInOneExchange) {
  for (const int size : {2, 3, 8}) {
    SCOPED_TRACE(size);
    if (size > max_test_ranks()) continue;
    on_ranks(size, [size](Communicator& comm) {
      const int next = (comm.rank() + 1) % size;
      const int previous = (comm.rank() + size - 1) % size;
      std::vector<int> held{comm.rank(), 10 * comm.rank()};
      std::vector<int> received(2);
      for (int step = 1; step <= 3 * size; ++step) {
        const std::vector<Transfer> transfers{
            {.is_send = true, .peer = next, .tag = step, .outgoing = bytes(held)},
            {.is_send = false, .peer = previous, .tag = step, .incoming = bytes(received)}};
        comm.exchange(transfers);
        held = received;
        const int origin = (comm.rank() + step * (size - 1)) % size;
        ASSERT_EQ(held, (std::vector<int>{origin, 10 * origin}));
      }
    });
  }
}

TEST(Messages, RunThroughAPipelineOfFourRanks) {
  TRI_NEED_RANKS(4);
  on_ranks(4, [](Communicator& comm) {
    for (int micro_batch = 0; micro_batch < 50; ++micro_batch) {
      std::vector<int> activation{micro_batch, 0};
      if (comm.rank() > 0) comm.recv(bytes(activation), comm.rank() - 1, micro_batch);
      activation[1] += comm.rank();
      if (comm.rank() < 3) comm.send(bytes(activation), comm.rank() + 1, micro_batch);
      const std::vector<int> expected{micro_batch, comm.rank() * (comm.rank() + 1) / 2};
      ASSERT_EQ(activation, expected);
    }
  });
}

// 0 waits for 1 first, 1 for 2, and 2 for its message to 0 to be taken.
TEST(Messages, OfOneExchangeMoveInWhateverOrderTheyCan) {
  TRI_NEED_RANKS(3);
  on_ranks(3, [](Communicator& comm) {
    for (int repetition = 0; repetition < 100; ++repetition) {
      std::vector<int> one{comm.rank()};
      std::vector<int> other{-1};
      if (comm.rank() == 0) {
        const std::vector<Transfer> transfers{{.peer = 1, .incoming = bytes(one)},
                                              {.peer = 2, .incoming = bytes(other)}};
        comm.exchange(transfers);
        ASSERT_EQ(one[0] + 10 * other[0], 21);
      } else if (comm.rank() == 1) {
        comm.recv(bytes(other), 2, 0);
        comm.send(bytes(one), 0, 0);
      } else {
        comm.send(bytes(one), 0, 0);
        comm.send(bytes(one), 1, 0);
      }
    }
  });
}

TEST(Messages, ToOneselfAreRefused) {
  TRI_NEED_RANKS(2);
  on_ranks(2, [](Communicator& comm) {
    std::vector<int> message(1);
    EXPECT_THROW(comm.send(bytes(message), comm.rank(), 0), UsageError);
    EXPECT_THROW(comm.recv(bytes(message), comm.rank(), 0), UsageError);
    EXPECT_THROW(comm.send(bytes(message), 2, 0), UsageError);
  });
}

TEST(Messages, TwiceToOnePeerInOneExchangeAreRefused) {
  TRI_NEED_RANKS(2);
  on_ranks(2, [](Communicator& comm) {
    std::vector<int> message(1);
    const Transfer transfer{
        .is_send = true, .peer = 1 - comm.rank(), .tag = 0, .outgoing = bytes(message)};
    const std::vector<Transfer> transfers{transfer, transfer};
    EXPECT_THROW(comm.exchange(transfers), UsageError);
  });
}

}  // namespace
}  // namespace trireme
