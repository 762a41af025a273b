// Threads of C++ that sleep again and again: in a template, behind a virtual call, and while an exception is handled.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>

static volatile unsigned long sink;

namespace store {
struct Waits {
    virtual void wait(std::mutex &mutex) = 0;
    virtual ~Waits() = default;
};

template <typename Value> struct Cache : Waits {
    std::condition_variable changed;
    [[gnu::noinline]] void wait(std::mutex &mutex) override {
        std::unique_lock<std::mutex> held(mutex);
        changed.wait_for(held, std::chrono::milliseconds(40));
        sink++;
    }
};

[[gnu::noinline]] void handled() {
    try {
        throw std::runtime_error("planted");
    } catch (const std::exception &) {
        std::this_thread::sleep_for(std::chrono::milliseconds(40));
    }
    sink++;
}
}

[[gnu::noinline]] static void repeat(const char *name, const std::function<void()> &work) {
    prctl(PR_SET_NAME, name);
    for (;;) { work(); sink++; }
}

int main() {
    store::Cache<int> cache;
    store::Waits *waits = &cache;
    std::mutex mutex;
    std::thread condition(repeat, "condition", [&] { waits->wait(mutex); });
    std::thread handled(repeat, "handled", store::handled);
    std::puts("ready");
    std::fflush(stdout);
    condition.join();
}
