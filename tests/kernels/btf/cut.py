#!/usr/bin/env python3
"""cut.py KERNEL OUT: writes to OUT the types of a kernel's BTF that the paths in the file `paths` lead to.

KERNEL is /sys/kernel/btf/vmlinux of the kernel, or an uncompressed image (vmlinux, arm64's Image). See README.md.
"""
import re
import struct
import sys
from pathlib import Path

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, \
    DECL_TAG, TYPE_TAG, ENUM64 = range(1, 20)
MODIFIERS = {TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG}
# Words after the three of every type: a fixed number, and a number per entry.
WORDS = {INT: (1, 0), ARRAY: (3, 0), STRUCT: (0, 3), UNION: (0, 3), ENUM: (0, 2), FUNC_PROTO: (0, 2), VAR: (1, 0),
         DATASEC: (0, 3), DECL_TAG: (1, 0), ENUM64: (0, 3)}

# The structure that paths start from, and other types that are found by name.
ROOT = (STRUCT, "task_struct")
NAMED = [(FUNC, "bpf_iter_task"), (FUNC, "bpf_rdonly_cast"), (TYPEDEF, "btf_trace_sched_process_exit"),
         (TYPEDEF, "btf_trace_sched_process_free"), (TYPEDEF, "btf_trace_cgroup_mkdir"), (STRUCT, "bpf_iter_meta"),
         (ENUM, "cgroup_subsys_id")]

HEADER = "<HBBIIIII"
MAGIC = struct.pack("<HB", 0xEB9F, 1)


def sections(data):
    """The types and strings of the first BTF in `data`."""
    at = data.find(MAGIC)
    while at >= 0:
        *_, flags, length, types, types_length, strings, strings_length = struct.unpack_from(HEADER, data, at)
        base = at + length
        end = base + strings + strings_length
        # Images contain these three bytes by chance, too.
        if flags == 0 and 24 <= length <= 64 and types == 0 and types_length > 0 and strings == types_length and end <= len(data):
            return data[base:base + types_length], data[base + strings:end]
        at = data.find(MAGIC, at + 1)
    sys.exit("no BTF found")


class Type:
    def __init__(self, words, tail, strings):
        name, info, self.size = words
        self.kind, self.flag, entries = info >> 24 & 0x7F, info & 1 << 31, info & 0xFFFFFF
        self.name = string(strings, name)
        self.tail = tail
        # Name and value of enumerators.
        self.enumerators = []
        if self.kind == ENUM:
            self.enumerators = [(string(strings, tail[n]), tail[n + 1]) for n in range(0, 2 * entries, 2)]
        # Name, type and offset of members.
        self.members = []
        if self.kind in (STRUCT, UNION):
            self.members = [(string(strings, tail[n]), *tail[n + 1:n + 3]) for n in range(0, 3 * entries, 3)]


def string(strings, at):
    return strings[at:strings.index(b"\0", at)].decode()


def read(data):
    types, strings = sections(data)
    found, at = [None], 0
    while at < len(types):
        words = struct.unpack_from("<3I", types, at)
        fixed, per_entry = WORDS.get(words[1] >> 24 & 0x7F, (0, 0))
        count = fixed + per_entry * (words[1] & 0xFFFFFF)
        found.append(Type(words, struct.unpack_from(f"<{count}I", types, at + 12), strings))
        at += 12 + 4 * count
    return found


class Cut:
    """The parts of `types` to keep."""

    def __init__(self, types):
        self.types = types
        self.members = {}  # the members to keep of each structure
        self.followed = set()  # pointers whose target is kept

    def by_name(self, kind, name):
        return next((at for at, one in enumerate(self.types) if one and (one.kind, one.name) == (kind, name)), None)

    def plain(self, at):
        while at and self.types[at].kind in MODIFIERS:
            at = self.types[at].size
        return at

    def member(self, at, name):
        """The members that lead to `name`, outermost first, and its type; None if there is none."""
        at = self.plain(at)
        for index, (member, of_type, _) in enumerate(self.types[at].members if at else ()):
            if member == name:
                return [(at, index)], of_type
            inner = self.member(of_type, name) if member == "" else None
            if inner:
                return [(at, index), *inner[0]], inner[1]
        return None

    def keep(self, at, path):
        """Keeps what `path` leads to from a structure, if the kernel has it."""
        used, followed = [], []
        for name in re.findall(r"\w+|->|\[[\w.]+\]", path):
            plain = self.plain(at)
            if name == "->":
                followed.append(plain)
                at = self.types[plain].size
            elif name.startswith("["):
                at = self.types[plain].tail[0]
            else:
                found = self.member(at, name)
                if not found:
                    return
                used += found[0]
                at = found[1]
        self.followed.update(followed)
        for structure, index in used:
            self.members.setdefault(structure, set()).add(index)

    def kept_members(self, at):
        """Members with their types. The last one is kept in any case, because paths can lead beyond a last array."""
        members = self.types[at].members
        kept = self.members.get(at, range(len(members)))
        for index, (name, of_type, offset) in enumerate(members):
            if index in kept or index == len(members) - 1:
                yield name, of_type if index in kept else 0, offset

    def targets(self, at):
        """The types that a type refers to."""
        one = self.types[at]
        if one.kind in (STRUCT, UNION):
            return [of_type for _, of_type, _ in self.kept_members(at)]
        if one.kind == ARRAY:
            return [one.tail[0]]
        # A typedef of a tracepoint is found by name.
        if at in self.followed or one.kind in MODIFIERS and not one.name.startswith("btf_trace_"):
            return [one.size]
        return []

    def write(self, roots):
        pending, kept = list(roots), set()
        while pending:
            at = pending.pop()
            if at and at not in kept:
                kept.add(at)
                pending += self.targets(at)
        ids = {at: number for number, at in enumerate(sorted(kept), 1)}
        strings = Strings()
        types = b"".join(self.encoded(at, ids, strings) for at in ids)
        header = struct.pack(HEADER, 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings.text))
        return header + types + strings.text

    def encoded(self, at, ids, strings):
        one = self.types[at]
        entries, size, tail = 0, one.size, []
        if one.kind in (STRUCT, UNION):
            members = list(self.kept_members(at))
            entries = len(members)
            tail = [word for name, of_type, offset in members for word in (strings.add(name), ids.get(of_type, 0), offset)]
        elif one.kind == ARRAY:
            tail = [ids[one.tail[0]], 0, one.tail[2]]
        elif one.kind == INT:
            tail = one.tail
        elif (one.kind, one.name) in NAMED:
            entries = len(one.enumerators)
            tail = [word for name, value in one.enumerators for word in (strings.add(name), value)]
        elif one.kind in MODIFIERS | {PTR, FUNC}:
            size = ids.get(one.size, 0) if self.targets(at) else 0
        info = one.flag | one.kind << 24 | entries
        return struct.pack(f"<{3 + len(tail)}I", strings.add(one.name), info, size, *tail)


class Strings:
    def __init__(self):
        self.text = b"\0"
        self.offsets = {"": 0}

    def add(self, name):
        if name not in self.offsets:
            self.offsets[name] = len(self.text)
            self.text += name.encode() + b"\0"
        return self.offsets[name]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    cut = Cut(read(Path(sys.argv[1]).read_bytes()))
    root = cut.by_name(*ROOT)
    for line in (Path(__file__).parent / "paths").read_text().splitlines():
        for path in line.split("|"):
            cut.keep(root, path.strip())
    named = [cut.by_name(*one) for one in NAMED]
    Path(sys.argv[2]).write_bytes(cut.write([root, *named]))


if __name__ == "__main__":
    main()
