// All ranks of a world as threads that stay and wait for work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "trireme/comm/threads/thread_world.h"
#include "trireme/execute/rank_resources.h"

namespace trireme {

/// For a caller that is no rank: it hands work to all of them, many times. Used by one thread.
class ThreadRanks {
 public:
  using Work = std::function<void(int rank, RankResources& resources)>;

  /// One thread for each of `programs`, which outlive it. Throws as RankResources does.
  ThreadRanks(const std::vector<RankPrograms>& programs, RankOptions options);
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;
  ThreadRanks(ThreadRanks&&) = delete;
  ThreadRanks& operator=(ThreadRanks&&) = delete;
  ~ThreadRanks();

  /// Runs `work` in every rank's thread at once; returns when all are done, and what they wrote is
  /// visible. When one throws, peers that wait for it wake with PeerLost, those that have not begun
  /// do not begin, all threads end, and the exception of the rank that failed first is rethrown:
  /// here and by every later call.
  void run(const Work& work);

 private:
  void rank_main(int rank);
  void serve(int rank, RankResources& resources);
  /// The next work of a rank that has done `num_done` of them; nullptr: there is none any more.
  [[nodiscard]] const Work* next_work(std::int64_t num_done);
  void end_work();

  const std::vector<RankPrograms>& programs_;
  RankOptions options_;
  ThreadWorld world_;
  std::mutex mutex_;  ///< guards all below but the thread
  std::condition_variable has_work_, is_done_;
  const Work* work_ = nullptr;
  std::int64_t num_works_ = 0;  ///< handed out so far
  int num_busy_ = 0;            ///< ranks that have not finished the last one
  bool is_ending_ = false;
  bool has_ended_ = false;      ///< no rank runs any more
  std::exception_ptr failure_;  ///< what ended the ranks
  std::thread launcher_;        ///< starts and joins the ranks
};

}  // namespace trireme
