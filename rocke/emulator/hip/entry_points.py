"""LLVM IR of the C entry points, which call Python objects through Python's own C functions.

An exception that a signal handler raises while Python answers (``KeyboardInterrupt``, or the
``SystemExit`` of a handler of ``SIGTERM``) must neither be lost below C nor change what C returns.
So the entry point takes it from the answer, returns ``hipErrorUnknown``, and has Python raise the
same exception once C is left: ``Py_AddPendingCall`` runs a function in the main thread's next
bytecode, and the exception that the function sets is raised there. ``ctypes`` callbacks cannot do
this: they print an exception, forget it and return what happens to lie in the result's place.
"""

from __future__ import annotations

from rocke.emulator.hip.errors import HipCode
from rocke.emulator.hip.signatures import PER_THREAD, RETURNS_POINTER, SIGNATURES, UNSUPPORTED

TABLE = "rocke_hip_stand_in"
"""The symbol of the table of :func:`slots`; it tells the stand-in from a real HIP library."""
PYTHON_TABLE = "rocke_hip_python"
"""The symbol of the table that holds :data:`PYTHON_FUNCTIONS`, then the main thread's identity."""
PYTHON_FUNCTIONS = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyObject_CallFunction",
    "PyLong_AsUnsignedLongLongMask",
    "Py_DecRef",
    "PyErr_Fetch",
    "PyErr_Restore",
    "PyErr_WriteUnraisable",
    "Py_AddPendingCall",
    "PyThread_get_thread_ident",
)
_MAIN_THREAD = len(PYTHON_FUNCTIONS)
_IR_TYPES = {"p": "ptr", "i": "i32", "u": "i32", "z": "i64", "h": "i16", "b": "i8"}
# Of Py_BuildValue. Pointers are integers for Python too.
_FORMATS = {"p": "K", "z": "K", "i": "i", "u": "I", "h": "H", "b": "B"}


def slots() -> tuple[str, ...]:
    """The table's entries: one a function, and last the one of all unsupported functions.

    Each holds the address of a callable Python object, or zero for "there is no GPU".
    """
    return (*SIGNATURES, "unsupported")


def library_ir(triple: str) -> str:
    """LLVM IR of the whole library."""
    names = slots()
    parts = [
        f'target triple = "{triple}"',
        f"@{TABLE} = global [{len(names)} x ptr] zeroinitializer",
        f"@{PYTHON_TABLE} = global [{_MAIN_THREAD + 1} x ptr] zeroinitializer",
        "@raised = internal global [3 x ptr] zeroinitializer",
        _raise_ir(),
        _answer_ir(),
    ]
    for letters in sorted({*SIGNATURES.values(), "u"}):
        text = "".join(_FORMATS[letter] for letter in letters)
        parts.append(f'@format_{letters} = internal constant [{len(text) + 1} x i8] c"{text}\\00"')
    per_thread = {f"{name.removesuffix('_spt')}": name for name in PER_THREAD}
    for index, name in enumerate(names[:-1]):
        parts.append(_function(name, index, SIGNATURES[name], name in RETURNS_POINTER))
        if name in per_thread:
            parts.append(_function(per_thread[name], index, SIGNATURES[name], False))
    for number, name in enumerate(UNSUPPORTED):
        parts.append(_function(name, len(names) - 1, "u", False, number))
    return "\n".join(parts)


def _function(name: str, slot: int, letters: str, pointer: bool, number: int | None = None) -> str:
    """An entry point; with ``number`` it has no parameters and passes that."""
    parameters = [f"{_IR_TYPES[letter]} %a{i}" for i, letter in enumerate(letters)]
    widened = [_widened(letter, i) for i, letter in enumerate(letters)]
    passed = [f"{_vararg_type(letter)} %v{i}" for i, letter in enumerate(letters)]
    if number is not None:
        parameters, widened, passed = [], [], [f"i32 {number}"]
    arguments = ", ".join(["ptr %target", f"ptr @format_{letters}", *passed])
    result, absent, failed = "ptr", "null", 0
    if not pointer:
        result, absent, failed = "i32", str(int(HipCode.NO_DEVICE)), int(HipCode.UNKNOWN)
    indented = "\n  ".join(widened)
    convert = "inttoptr i64 %answer to ptr" if pointer else "trunc i64 %answer to i32"
    return f"""
define {result} @{name}({", ".join(parameters)}) {{
  %slot = getelementptr ptr, ptr @{TABLE}, i64 {slot}
  %target = load atomic ptr, ptr %slot acquire, align 8
  %empty = icmp eq ptr %target, null
  br i1 %empty, label %absent, label %present
present:
  {indented}
  %ensure = {_python("PyGILState_Ensure")}
  %gil = call i32 %ensure()
  %call = {_python("PyObject_CallFunction")}
  %object = call ptr (ptr, ptr, ...) %call({arguments})
  %answer = call i64 @answer(ptr %target, ptr %object, i32 %gil, i64 {failed})
  %result = {convert}
  ret {result} %result
absent:
  ret {result} {absent}
}}"""


def _answer_ir() -> str:
    """What to return after a call, and the end of Python's part: ``failed`` when it raised.

    Only the main thread can raise the exception later; elsewhere Python's hook for exceptions that
    nothing can catch gets it. So it does when another exception still waits to be raised.
    """
    return f"""
define internal i64 @answer(ptr %asked, ptr %object, i32 %gil, i64 %failed) noinline {{
  %nothing = icmp eq ptr %object, null
  br i1 %nothing, label %exception, label %returned
returned:
  %convert = {_python("PyLong_AsUnsignedLongLongMask")}
  %value = call i64 %convert(ptr %object)
  %forget = {_python("Py_DecRef")}
  call void %forget(ptr %object)
  br label %done
exception:
  %identity = {_python("PyThread_get_thread_ident")}
  %thread = call ptr %identity()
  %main = load ptr, ptr {_entry(_MAIN_THREAD)}
  %here = icmp eq ptr %thread, %main
  %waiting = load ptr, ptr @raised
  %free = icmp eq ptr %waiting, null
  %possible = and i1 %here, %free
  br i1 %possible, label %later, label %never
later:
  %fetch = {_python("PyErr_Fetch")}
  call void %fetch(ptr @raised, ptr {_raised(1)}, ptr {_raised(2)})
  %add = {_python("Py_AddPendingCall")}
  %full = call i32 %add(ptr @raise, ptr null)
  %added = icmp eq i32 %full, 0
  br i1 %added, label %done, label %again
again:
  %status = call i32 @raise(ptr null)
  br label %never
never:
  %report = {_python("PyErr_WriteUnraisable")}
  call void %report(ptr %asked)
  br label %done
done:
  %answer = phi i64 [ %value, %returned ], [ %failed, %later ], [ %failed, %never ]
  %release = {_python("PyGILState_Release")}
  call void %release(i32 %gil)
  ret i64 %answer
}}"""


def _raise_ir() -> str:
    """The pending call: set the exception that was kept. Whoever calls it has the GIL."""
    return f"""
define internal i32 @raise(ptr %unused) {{
  %type = load ptr, ptr @raised
  %value = load ptr, ptr {_raised(1)}
  %trace = load ptr, ptr {_raised(2)}
  store ptr null, ptr @raised
  %restore = {_python("PyErr_Restore")}
  call void %restore(ptr %type, ptr %value, ptr %trace)
  ret i32 -1
}}"""


def _python(name: str) -> str:
    return f"load ptr, ptr {_entry(PYTHON_FUNCTIONS.index(name))}"


def _entry(index: int) -> str:
    return f"getelementptr (ptr, ptr @{PYTHON_TABLE}, i64 {index})"


def _raised(index: int) -> str:
    return f"getelementptr (ptr, ptr @raised, i64 {index})"


def _vararg_type(letter: str) -> str:
    """C passes what is shorter than an ``int`` to a variadic function as one."""
    return {"p": "ptr", "z": "i64"}.get(letter, "i32")


def _widened(letter: str, index: int) -> str:
    kind, wide = _IR_TYPES[letter], _vararg_type(letter)
    if kind == wide:
        return f"%v{index} = bitcast {kind} %a{index} to {kind}"
    return f"%v{index} = zext {kind} %a{index} to {wide}"
