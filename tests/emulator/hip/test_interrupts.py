"""Signals while HIP answers: what a handler raises comes once, in the caller's code, and whole."""

import os
import subprocess
import sys
import threading

import pytest
from hip import hip

from tests.emulator.hip.calls import ERROR, check
from tests.emulator.hip.process import ROOT, on_emulated_gpu
from tests.emulator.hip.test_device_calls import raising, stand_in_calls

pytestmark = pytest.mark.normal

# Handlers are set, not inherited: a shell starts what it runs in the background with the signal
# ignored. A signal that was sent has come after a few more calls, which is how a lost one is seen.
PROGRAM = """
import os, random, signal, sys, threading
import numpy as np
from hip import hip
from rocke.emulator import hip as stand_in
stand_in.enable("gfx942")
from tests.emulator.hip.calls import add_arguments, check, get_kernel, launch, to_device, to_host

AFTER, LATEST_S = 20, 0.02
kernel = get_kernel("ADD")
arguments, a, b, c = add_arguments()
small = to_device(np.zeros(16, np.float32))

def send_later(delay, sent):
    threading.Event().wait(delay)
    os.kill(os.getpid(), signal.SIGINT)
    sent.set()

def rounds(count, seed):
    delays = random.Random(seed)
    for _ in range(count):
        sent = threading.Event()
        sender = threading.Thread(target=send_later, args=(delays.uniform(0, LATEST_S), sent))
        yield sent, sender

def calls(sent, sender):
    if sender.ident is None:  # here, since the signal may come before start() returns
        sender.start()
    left = AFTER
    while left:
        left -= sent.is_set()
        check(launch(kernel, (4, 1, 1), (256, 1, 1), arguments))
        check(hip.hipDeviceSynchronize())
        check(hip.hipMemset(small, 1, 64))

def works():
    check(hip.hipMemset(c, 0, a.nbytes))
    check(launch(kernel, (4, 1, 1), (256, 1, 1), arguments))
    np.testing.assert_array_equal(to_host(c, a), a + b)
"""


def run(program, expected):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


@pytest.mark.parametrize("seed", range(2))
def test_every_interrupt_of_a_loop_of_calls_comes_once(seed):
    program = f"""
signal.signal(signal.SIGINT, signal.default_int_handler)
found = []
for sent, sender in rounds(60, {seed}):
    times = 0
    for _ in range(2):
        try:
            calls(sent, sender)
        except KeyboardInterrupt:
            times += 1
            sender.join()
    works()
    found.append(times)
print(found)
"""
    run(program, f"{[1] * 60}\n")


def test_a_handler_that_raises_runs_once_and_its_exception_arrives_whole():
    program = """
class Stop(BaseException):
    pass

ran = []
def handler(*_):
    ran.append(len(ran))
    raise Stop(ran[-1])

signal.signal(signal.SIGINT, handler)
found = []
for sent, sender in rounds(60, 2):
    try:
        calls(sent, sender)
    except Stop as stop:
        found.append(stop.args[0])
    sender.join()
    works()
print(found == ran == list(range(60)))
"""
    run(program, "True\n")


def test_a_handler_that_does_not_raise_changes_nothing():
    program = """
ran = []
signal.signal(signal.SIGINT, lambda *_: ran.append(1))
for sent, sender in rounds(60, 3):
    calls(sent, sender)
    sender.join()
    works()
print(len(ran))
"""
    run(program, "60\n")


def test_an_interrupt_ends_a_launch_that_would_not_end():
    program = """
signal.signal(signal.SIGINT, signal.default_int_handler)
spin, flag = get_kernel("SPIN"), to_device(np.zeros(1, np.int32))
timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
try:
    timer.start()
    launch(spin, (8, 1, 1), (256, 1, 1), (flag,))
except KeyboardInterrupt:
    works()
    check(hip.hipMemset(flag, 1, 4))
    check(launch(spin, (8, 1, 1), (256, 1, 1), (flag,)))
    print("interrupted")
"""
    run(program, "interrupted\n")


def test_the_exit_of_a_handler_ends_the_process():
    program = """
def leave(*_):
    print("leaving", flush=True)
    sys.exit(7)

signal.signal(signal.SIGINT, leave)
[(sent, sender)] = rounds(1, 4)
try:
    calls(sent, sender)
except SystemExit as exit:
    print(exit.code)
"""
    run(program, "leaving\n7\n")


def raised_below(error, note=None):
    """What ``hipDeviceSynchronize`` raises when the stand-in's function raises ``error``.

    With ``note``, noting that failure raises this.
    """
    calls = stand_in_calls()
    session = calls["hipDeviceSynchronize"].__self__.s
    kept = calls["hipDeviceSynchronize"]
    calls["hipDeviceSynchronize"] = raising(error)
    if note is not None:
        session.note = lambda *arguments: raising(note)()
    try:
        return hip.hipDeviceSynchronize()[0]
    except BaseException as found:
        return found
    finally:
        calls["hipDeviceSynchronize"] = kept
        session.__dict__.pop("note", None)


@on_emulated_gpu()
def test_an_interrupt_reaches_the_caller():
    for error in (KeyboardInterrupt(), SystemExit(3)):
        assert raised_below(error) is error
    check(hip.hipDeviceSynchronize())


@on_emulated_gpu()
def test_an_interrupt_while_a_failure_is_noted_reaches_the_caller():
    error = KeyboardInterrupt()
    assert raised_below(ZeroDivisionError(), note=error) is error
    assert raised_below(ZeroDivisionError(), note=ZeroDivisionError()) == ERROR.hipErrorUnknown


@on_emulated_gpu()
def test_a_call_without_room_on_the_stack_raises_in_the_caller():
    found = []

    def deeper():
        try:
            found.append(hip.hipDeviceSynchronize()[0])
            deeper()
        except RecursionError as error:
            found.append(error)

    deeper()
    assert ERROR.hipSuccess in found
    assert isinstance(found[-1], RecursionError)
    assert set(found[:-1]) <= {ERROR.hipSuccess, ERROR.hipErrorUnknown}
    check(hip.hipDeviceSynchronize())


@on_emulated_gpu()
def test_an_exception_below_another_thread_does_not_reach_the_main_one():
    # Python runs handlers on the main thread: only asynchronous exceptions come elsewhere.
    reported, found = [], []
    kept, sys.unraisablehook = sys.unraisablehook, reported.append
    error = SystemExit(3)
    try:
        thread = threading.Thread(target=lambda: found.append(raised_below(error)))
        thread.start()
        thread.join()
        assert found == [ERROR.hipErrorUnknown]
        assert [r.exc_value for r in reported] == [error]
    finally:
        sys.unraisablehook = kept


@on_emulated_gpu()
def test_the_thread_that_forks_is_the_main_one_of_the_child():
    statuses = []

    def fork():
        child = os.fork()
        if not child:
            error = KeyboardInterrupt()
            os._exit(0 if raised_below(error) is error else 1)
        statuses.append(os.waitpid(child, 0)[1])

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert statuses == [0]
