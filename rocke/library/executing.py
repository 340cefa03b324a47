"""Run build tasks in processes, so that the death of one is one kernel's failure."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from concurrent.futures import ProcessPoolExecutor as Pool
from multiprocessing.connection import wait as wait_for_objects

from rocke.library.build_job import Compiled, Task, compile_task

_DIED = "the process that compiled it died"


def run_tasks(
    tasks: Mapping[int, Task], jobs: int | None, executor: Executor | None
) -> Iterator[tuple[int, Compiled]]:
    """The answers, as they come. Raises nothing for a task that fails or kills its process.

    Closing the iterator cancels what has not begun.
    """
    if not tasks:
        return
    if executor is not None:
        yield from _collect(executor, tasks)
        return
    count = min(jobs or len(os.sched_getaffinity(0)), len(tasks))
    left = dict(tasks)
    while left:
        with _pool(count) as pool:
            for number, answer in _collect(pool, left):
                if answer.error != _DIED:
                    del left[number]
                    yield number, answer
        # The pool broke, and any of the tasks that it held may be why: those run alone.
        for number in list(left)[: 2 * count + 1]:
            with _pool(1) as pool:
                yield from _collect(pool, {number: left.pop(number)})


def _collect(executor: Executor, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Compiled]]:
    futures: dict[Future[Compiled], int] = {}
    refused = _DIED
    try:
        try:
            for number, task in tasks.items():
                futures[executor.submit(compile_task, task)] = number
        except BrokenExecutor:
            pass  # what was not submitted is answered below
        except Exception as error:  # one that was shut down, for example
            refused = f"the executor refused it: {_words(error)}"
        pending = set(futures)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield futures[future], _answer(future)
        for number in tasks.keys() - set(futures.values()):
            yield number, Compiled(b"", error=refused)
    finally:
        for future in futures:
            future.cancel()


def _answer(future: Future[Compiled]) -> Compiled:
    try:
        answer = future.result()
    except BrokenExecutor:
        return Compiled(b"", error=_DIED)
    except Exception as error:  # an executor's own, such as a cluster that gave up on a task
        return Compiled(b"", error=_words(error))
    if not isinstance(answer, Compiled) or not isinstance(answer.hsaco, bytes):
        kind = type(answer).__name__
        return Compiled(b"", error=f"the executor gave {kind}, expected what the task returns")
    return answer


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


def _pool(count: int) -> Pool:
    context = multiprocessing.get_context("spawn")
    return Pool(count, mp_context=context, initializer=_end_with_parent)


def _end_with_parent() -> None:
    """A pool's process waits for work forever, even when its parent was killed: end it then."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait_for_objects([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
