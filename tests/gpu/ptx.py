"""PTX, as NVRTC makes it, run on the host: each instruction becomes one C++ statement.

What a GPU executes is thus what is tested, up to the last step from PTX to machine code. Integers, memory, add, mul,
fma, div.rn and sqrt.rn are exact; ``.approx`` instructions are the hardware's own, here good to 20 bits, which the code
around them refines. An instruction that is not known is an error that names it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import pytest

from heterps.device import CUDA_OPTIONS
from tests.gpu.host import HERE, HostKernel, build, parameters
from tests.gpu.lanes import architectures

TYPES = {f"{k}{bits}": f"{'u' if k in 'ub' else ''}int{bits}_t" for k in "usb" for bits in (8, 16, 32, 64)}
TYPES |= {"f32": "float", "f64": "double", "pred": "bool"}
SPECIAL = {f"%{ptx}.x": c for ptx, c in (("tid", "threadIdx.x"), ("ntid", "blockDim.x"), ("ctaid", "blockIdx.x"))}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARE |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}

ENTRY = re.compile(r"\.visible \.entry (\w+)\(.*?\)\s*\{(.*?)\n\}", re.DOTALL)
GLOBAL = re.compile(r"\.(?:global|const) \.align (\d+) \.b8 (\w+)\[(\d+)\] = \{([^}]*)\};")
REGISTERS = re.compile(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>")


class UnknownInstructionError(AssertionError):
    """PTX that the lane cannot run."""


def nvrtc_ptx(text: str, name: str, options: tuple[str, ...] = CUDA_OPTIONS) -> str:
    """Compile CUDA to PTX."""
    if not architectures():
        pytest.skip("NVRTC is not installed")
    from cupy.cuda import nvrtc as cupy_nvrtc

    program = cupy_nvrtc.createProgram(text, name, (), ())
    cupy_nvrtc.compileProgram(program, ["-arch=compute_80", *options])
    made = cupy_nvrtc.getPTX(program)
    return made.decode() if isinstance(made, bytes) else str(made)


def translate(ptx: str) -> str:
    """Return a C++ function for each kernel, and a launcher for each."""
    ptx = re.sub(r"//[^\n]*", "", ptx)
    parts = [f"alignas({a}) static const unsigned char {n}[{s}] = {{{v}}};" for a, n, s, v in GLOBAL.findall(ptx)]
    for name, body in ENTRY.findall(ptx):
        parts.append(f"static void ptx_{name}(void** args) {{\n" + "\n".join(_body(name, body)) + "\n}")
        play = f"play(how, [&] {{ ptx_{name}(a); }});"
        parts.append(f'extern "C" void launch_{name}(const Launch& how, void** a) {{ {play} }}')
    return '#include "shim.h"\n#include "ptx.h"\n' + "\n".join(parts)


def _body(kernel: str, text: str) -> Iterator[str]:
    for statement in _statements(text):
        yield from _line(kernel, statement.strip())
    yield "    end: return;"


def _statements(text: str) -> list[str]:
    """Split at semicolons and line ends, but leave calls, which go over several lines, whole."""
    whole = re.sub(r"call\.uni[^;]*;", lambda call: " ".join(call.group().split()), text)
    return re.split(r"[;\n]", whole)


def _line(kernel: str, line: str) -> Iterator[str]:
    if not line or line in "{}":
        yield line
    elif line.endswith(":"):
        yield f"{_label(line[:-1])}:;"
    elif line.startswith((".reg", ".local", ".param", ".loc", ".pragma")):
        yield _declaration(line)
    else:
        guard, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
        made = _instruction(kernel, rest.strip())
        if guard:
            wanted = guard.lstrip("@!")
            made = f"if ({'!' if '!' in guard else ''}{_operand(wanted)}) {{ {made} }}"
        yield f"    {made}"


def _declaration(line: str) -> str:
    many = REGISTERS.match(line)
    if many:
        kind, name, count = many.groups()
        return f"    {TYPES[kind]} {name}[{count}];"
    one = re.match(r"\.reg \.(\w+)\s+%(\w+)", line)
    if one:
        return f"    {TYPES[one[1]]} {one[2]};"
    local = re.match(r"\.local \.align (\d+) \.b8\s+(\w+)\[(\d+)\]", line)
    if local:
        return f"    alignas({local[1]}) unsigned char {local[2]}[{local[3]}];"
    return ""  # room for the parameters of calls, which are not translated


def _label(name: str) -> str:
    return name.replace("$", "").strip()


def _operand(text: str) -> str:
    """A register, a special register, a symbol, or a number."""
    text = text.strip()
    if text in SPECIAL:
        return SPECIAL[text]
    if text.startswith("0f"):
        return f"get<float>((uint32_t)0x{text[2:]}u)"
    if text.startswith("0d"):
        return f"get<double>((uint64_t)0x{text[2:]}ull)"
    register = re.fullmatch(r"%([a-z]+)(\d+)", text)
    if register:
        return f"{register[1]}[{register[2]}]"
    if text.startswith("%"):
        return text[1:]
    if re.fullmatch(r"-?\d+", text):
        return f"(int64_t){text}ll" if int(text) < 2**63 else f"(uint64_t){text}ull"
    return f"(uint64_t){text}"  # the address of a symbol


def _read(text: str, kind: str) -> str:
    return f"get<{TYPES[kind]}>({_operand(text)})"


def _write(to: str, value: str) -> str:
    return f"put({_operand(to)}, {value});"


def _address(text: str) -> str:
    base, _, offset = text.strip("[] ").partition("+")
    return f"({_operand(base)} + {offset or 0})"


def _operands(text: str) -> list[str]:
    """Operands apart; those in braces and brackets stay together."""
    return [o.strip() for o in re.findall(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s][^,]*", text)]


def _instruction(kernel: str, line: str) -> str:
    opcode, _, rest = line.partition(" ") if " " in line.split("\t")[0] else line.partition("\t")
    name, *modifiers = opcode.strip().split(".")
    operands = _operands(rest)
    if name == "bra":
        return f"goto {_label(operands[0])};"
    if name == "ret":
        return "goto end;"
    if name == "call":
        return f'not_reached("a call in {kernel}");'
    kind = modifiers[-1] if modifiers else ""
    if name == "ld" and "param" in modifiers:
        return _load_parameter(operands, kind)
    if name in ("ld", "st"):
        return _memory(name, modifiers, operands, kind)
    made = _arithmetic(name, modifiers, operands, kind)
    if made is None:
        raise UnknownInstructionError(f"{kernel}: {line!r}")
    return made


def _load_parameter(operands: list[str], kind: str) -> str:
    number = re.search(r"_param_(\d+)", operands[1])
    if number is None:  # what a call gave back
        return 'not_reached("the result of a call");'
    return _write(operands[0], f"load<{TYPES[kind]}>((uint64_t)args[{number[1]}])")


def _memory(name: str, modifiers: list[str], operands: list[str], kind: str) -> str:
    if "param" in modifiers:
        return 'not_reached("the parameters of a call");'
    assert modifiers[0] in ("global", "local"), modifiers
    where, what = (operands[1], operands[0]) if name == "ld" else (operands[0], operands[1])
    size, made = int(kind[1:]) // 8, []
    for k, each in enumerate(what.strip("{}").split(",")):
        at = f"{_address(where)} + {k * size}"
        if name == "ld":
            made.append(_write(each, f"load<{TYPES[kind]}>({at})"))
        else:
            made.append(f"store<{TYPES[kind]}>({at}, {_read(each, kind)});")
    return " ".join(made)


def _arithmetic(name: str, modifiers: list[str], operands: list[str], kind: str) -> str | None:
    to, sources = operands[0], operands[1:]
    if name == "mov" and "{" in to + sources[0]:
        return _pack(to, sources[0], kind)
    if name == "cvt":
        return _write(to, _converted(modifiers, sources[0]))
    if name == "cvta":
        return _write(to, _read(sources[0], "u64"))
    if name == "atom":
        return _atomic(modifiers, operands, kind)
    if name == "mul" and modifiers[0] == "wide":
        wide = kind[0] + str(2 * int(kind[1:]))
        return _write(to, " * ".join(f"({TYPES[wide]}){_read(s, kind)}" for s in sources))
    if name == "setp":
        return _write(to, _compared(modifiers[0], [_read(s, kind) for s in sources], kind))
    if name == "selp":
        return _write(to, f"{_operand(sources[2])} ? {_read(sources[0], kind)} : {_read(sources[1], kind)}")
    if name in ("shl", "shr"):
        return _write(to, f"{name}<{TYPES[kind]}>({_read(sources[0], kind)}, {_read(sources[1], 'u32')})")
    value = _plain(name, modifiers, [_logical(s, kind) for s in sources], kind)
    return None if value is None else _write(to, f"({TYPES[kind]})({value})")


def _logical(text: str, kind: str) -> str:
    """A predicate's constants are 0 and -1."""
    return f"(bool)({_operand(text)})" if kind == "pred" else _read(text, kind)


def _plain(name: str, modifiers: list[str], s: list[str], kind: str) -> str | None:
    if "cc" in modifiers:  # carry chains stand in calls only
        return None
    approximate = "approx" in modifiers
    return {
        "add": lambda: f"add({s[0]}, {s[1]})",
        "sub": lambda: f"sub({s[0]}, {s[1]})",
        "mul": lambda: None if "hi" in modifiers else f"mul({s[0]}, {s[1]})",
        "div": lambda: None if approximate else f"{s[0]} / {s[1]}",
        "rem": lambda: f"{s[0]} % {s[1]}",
        "fma": lambda: f"std::fma({s[0]}, {s[1]}, {s[2]})",
        "rcp": lambda: f"rough_reciprocal({s[0]})" if approximate else f"1 / {s[0]}",
        "sqrt": lambda: None if approximate else f"std::sqrt({s[0]})",
        "abs": lambda: f"std::abs({s[0]})",
        "neg": lambda: f"neg({s[0]})",
        "min": lambda: f"smaller({s[0]}, {s[1]})",
        "max": lambda: f"larger({s[0]}, {s[1]})",
        "copysign": lambda: f"std::copysign({s[1]}, {s[0]})",  # the sign of the first, the value of the second
        "mov": lambda: s[0],
        "and": lambda: f"{s[0]} & {s[1]}",
        "or": lambda: f"{s[0]} | {s[1]}",
        "xor": lambda: f"{s[0]} ^ {s[1]}",
        "not": lambda: f"!{s[0]}" if kind == "pred" else f"~{s[0]}",
    }.get(name, lambda: None)()


def _pack(to: str, source: str, kind: str) -> str:
    half = f"b{int(kind[1:]) // 2}"
    if "{" in source:
        low, high = (_read(s, half) for s in source.strip("{}").split(","))
        return _write(to, f"(({TYPES[kind]}){high} << {half[1:]} | {low})")
    low, high = to.strip("{}").split(",")
    value = _read(source, kind)
    return f"{_write(low, f'({TYPES[half]}){value}')} {_write(high, f'({TYPES[half]})({value} >> {half[1:]})')}"


def _converted(modifiers: list[str], source: str) -> str:
    *rounding, into, kind = modifiers
    value = _read(source, kind)
    if into[0] != "f" and kind[0] == "f":
        if rounding == ["rzi"]:
            return f"truncated<{TYPES[into]}>({value})"
        assert rounding == ["rni"], modifiers
        return f"truncated<{TYPES[into]}>(std::nearbyint({value}))"
    assert rounding in ([], ["rn"]), modifiers
    return f"({TYPES[into]}){value}"


def _compared(how: str, s: list[str], kind: str) -> str:
    if kind[0] == "f" and how.endswith("u"):  # true if one of them is NaN
        opposite = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<", "equ": "!=", "neu": "=="}[how]
        return f"!({s[0]} {opposite} {s[1]})" if how != "equ" else f"!({s[0]} < {s[1]} || {s[0]} > {s[1]})"
    if kind[0] == "f" and how == "ne":  # false if one of them is NaN
        return f"({s[0]} < {s[1]} || {s[0]} > {s[1]})"
    return f"{s[0]} {COMPARE[how]} {s[1]}"


def _atomic(modifiers: list[str], operands: list[str], kind: str) -> str | None:
    where, values = f"({TYPES[kind]}*){_address(operands[1])}", [_read(o, kind) for o in operands[2:]]
    if "add" in modifiers:
        return _write(operands[0], f"atomicAdd({where}, {values[0]})")
    if "cas" in modifiers:
        return _write(operands[0], f"atomicCAS({where}, {values[0]}, {values[1]})")
    return None


class PtxRawModule:
    """``cupy.RawModule`` that runs what NVRTC made of a source."""

    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        self._taken = parameters(code)
        text = translate(nvrtc_ptx(code, "kernels.cu", options))
        self._library = ctypes.CDLL(str(build(text, "-shared", "-fPIC", "-w", f"-I{HERE}")))

    def get_function(self, name: str) -> Any:
        return HostKernel(name, self._taken[name], getattr(self._library, f"launch_{name}"))
