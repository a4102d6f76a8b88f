"""The token bucket: how much at once, how soon again, and a bounded memory."""

import threading

from runtime.intake.rate import Buckets, Rate, rate_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_goes_at_once_and_then_the_rate():
    clock = Clock()
    buckets = Buckets(clock=clock)
    rate = Rate(per_second=2, burst=3)
    assert [buckets.take("a", rate) for _ in range(4)] == [0, 0, 0, 1]
    clock.now += 0.5
    assert [buckets.take("a", rate) for _ in range(2)] == [0, 1]
    clock.now += 60
    assert [buckets.take("a", rate) for _ in range(4)] == [0, 0, 0, 1]


def test_the_wait_is_whole_seconds_of_what_is_missing():
    clock = Clock()
    buckets = Buckets(clock=clock)
    rate = Rate(per_second=0.1, burst=1)
    assert [buckets.take("a", rate) for _ in range(2)] == [0, 10]
    clock.now += 9.5
    assert buckets.take("a", rate) == 1
    clock.now += 0.5
    assert buckets.take("a", rate) == 0
    assert buckets.take("a", Rate(per_second=0.0001, burst=1)) == 60


def test_no_rate_and_no_burst_are_closed():
    buckets = Buckets()
    for rate in (Rate(0, 200), Rate(50, 0)):
        assert buckets.take("a", rate) >= 1


def test_a_changed_rate_counts_from_the_next_request():
    clock = Clock()
    buckets = Buckets(clock=clock)
    assert [buckets.take("a", Rate(1, 1)) for _ in range(2)] == [0, 1]
    clock.now += 1
    assert [buckets.take("a", Rate(100, 5)) for _ in range(6)] == [0, 0, 0, 0, 0, 1]


def test_each_key_has_its_own_and_the_longest_unused_goes_first():
    buckets = Buckets(kept=2, clock=Clock())
    rate = Rate(1, 1)
    assert [buckets.take(key, rate) for key in "aba"] == [0, 0, 1]
    assert buckets.take("c", rate) == 0
    assert buckets.take("a", rate) == 1
    assert buckets.take("b", rate) == 0


def test_many_threads_take_no_more_than_there_is():
    buckets = Buckets(clock=Clock())
    taken = []

    def take() -> None:
        taken.extend(buckets.take("a", Rate(1, 100)) for _ in range(50))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken.count(0) == 100


def test_what_a_trigger_does_not_say_is_the_default():
    assert rate_of({}, (50, 200)) == Rate(50, 200)
    assert rate_of({"rate": {"perSecond": 5}}, (50, 200)) == Rate(5, 200)
    assert rate_of({"rate": {"perSecond": 5, "burst": 10}}, (50, 200)) == Rate(5, 10)
