"""The guards of a trace: one generated function that says whether the world looks the same."""

from __future__ import annotations

import abc
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.capture.code import imported, is_opaque
from torpor.capture.holding import is_a, line_of, own_attributes, own_of, snapshot_of
from torpor.capture.place import ABSENT, Inherited, Local, Place, Variable
from torpor.capture.program import Known, Slot, Step, step
from torpor.capture.python import version_of, word_of_version
from torpor.capture.tracer import Input, Tracer
from torpor.capture.tree import is_plain, same
from torpor.tensor.handle import Handle
from torpor.tensor.realisation import value_of, values_in
from torpor.tensor.storage import Storage

Check = Callable[[Sequence[Handle]], bool]
COMPARED: Final = 1 << 10  # elements of two arrays at once, which a first cache holds


def same_array(array: Any, kept: Any) -> bool:
    """Whether an array still holds what it held, to the bit."""
    if array.shape != kept.shape or array.dtype != kept.dtype:
        return False
    if array.dtype.hasobject:
        return False
    flat, known = array.reshape(-1), kept.reshape(-1)
    parts = (slice(n, n + COMPARED) for n in range(0, flat.size, COMPARED))
    return all(flat[part].tobytes() == known[part].tobytes() for part in parts)


def same_parts(left: Any, right: Any) -> bool:
    """Whether two containers of a kind have the same parts: plain ones equal, others identical."""
    if type(left) is not type(right):
        return False
    if is_a(left, dict):
        return same_parts([*left], [*right]) and same_parts([*left.values()], [*right.values()])
    if is_a(left, bytes | str):
        return bool(left == right)
    if is_a(left, frozenset):
        return {*map(id, left)} == {*map(id, right)}
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(a is b or same(a, b) for a, b in pairs)


WITHOUT: Final = " without "  # between what has no names and the first of these
SHOWN: Final = 3  # such names
GRADIENT_THERE: Final = "whether a leaf has a gradient already"
_FUNCTIONS: Final = "the code or the defaults of a function"
_CLASSES: Final = "the class of an object"
_BASES: Final = "what a class inherits from"
_SPECIAL: Final = "the special methods of a class"
_LIBRARY: Final = "a function of a library"
_TENSORS: Final = "the methods of tensors"
_EVERYWHERE: Final = frozenset({_FUNCTIONS, _CLASSES, _BASES, _SPECIAL, _LIBRARY, _TENSORS})


class Test(NamedTuple):
    """One thing that must hold, and what it is about.

    expression: of Python, over named constants; `a` in it are the tensors that the function is
                called with. `entry` instead: how something is looked at (`getitem`, `getattr`,
                `now`, or by which slot), what of, under which name, and what is there; `lacks`:
                none of these names is there.
    steps:      native ones: where these hold it holds; where they are `exact`, only there.
    of_class:   it holds while no class has been changed.
    """

    expression: str
    path: str
    entry: tuple[Any, ...] = ()
    steps: tuple[Step, ...] = ()
    exact: bool = True
    of_class: bool = False


class Guards:
    """Tests, which are asked by one generated function."""

    def __init__(self) -> None:
        self.tests: list[Test] = []
        self.versions: tuple[str, Sequence[Step]] = "", ()  # what says that no class was changed
        self.names: dict[str, Any] = {
            "same": same, "same_array": same_array, "same_parts": same_parts, "is_": operator.is_,
            "getitem": operator.getitem, "lacks": _lacks,
            "now": _now, "is_same": _is_same,
        }  # fmt: skip
        self._bound: dict[int, str] = {}
        self.places: dict[str, Place] = {}  # by path, those that tests are about

    def bind(self, value: Any) -> str:
        """A name for a constant of the generated function."""
        name = self._bound.get(id(value))
        if name is None:
            name = self._bound[id(value)] = f"g{len(self._bound)}"
            self.names[name] = value
        return name

    def add(
        self, expression: str, path: str, *steps: Step, exact: bool = True, of_class: bool = False
    ) -> None:
        """One more test."""
        self.tests.append(Test(expression, path, (), steps, exact, of_class))

    def add_held(
        self, owner: Any, name: str, value: Any, path: str, *, other: bool = False,
        of_class: bool = False,
    ) -> None:  # fmt: skip
        """One more test: a slot of a tensor or a storage, what a mapping has under a name (`ABSENT`
        is nothing), what is in a cell, or a part of a function is this very value, or a plain one
        that equals it; `other`: it is another one.
        """
        if value is ABSENT:
            self.add_lacks(owner, frozenset([name]), path, of_class)
            return
        known, look, found = Known(value), "getattr", f"{self.bind(owner)}.{name}"
        steps = [step("constant", "owner", Known(owner))]
        if is_a(owner, types.FunctionType):  # Python keeps None there as no object
            steps = [step(name.strip("_"), Known(owner), 0 if value is None else known)]
        elif is_a(owner, types.CellType):
            steps = [step("cell", "held", Known(owner)), step("is", "held", known)]
        elif is_a(owner, Handle | Storage):
            slot = Slot(Handle if is_a(owner, Handle) else Storage, name)
            steps += [step("slot", "held", "owner", slot), step("is", "held", known)]
        else:
            look, found = "getitem", f"{self.bind(owner)}[{name!r}]"
            steps += [step("dict_item", "held", "owner", Known(name)), step("is", "held", known)]
        if look != "getattr" and not (type(owner) is dict and type(name) is str):
            steps = []  # native code does not find it
        if other:
            steps[-1] = steps[-1]._replace(operation="not")
        entry = () if other else (look, owner, name, value)
        test = f"{found} is not {self.bind(value)}" if other else ""
        exact = other or type(value) in (bool, type(None)) or not is_plain(value)
        self.tests.append(Test(test, path, entry, tuple(steps), exact, of_class))

    def add_lacks(
        self, owner: Any, names: frozenset[str], path: str, of_class: bool = False
    ) -> None:
        """One more test: something has nothing under any of these names. Where it has fewer names
        than that itself, whether these are still the same is asked first.
        """
        steps, exact = [step("constant", "owner", Known(owner))], len(names) <= len(owner)
        if exact:
            steps += [step("lacks", "owner", Known(name)) for name in sorted(names)]
        else:
            steps += [step("dict_length", "owner", len(owner)), step("dict_start")]
            steps += [step("dict_key", "owner", Known(name)) for name in owner]
        entry = ("lacks", owner.keys(), names, True)
        steps = steps if type(owner) is dict else []
        self.tests.append(Test("", path, entry, tuple(steps), exact, of_class))

    def add_versions(self, classes: Sequence[type]) -> None:
        """Have tests about classes asked only where one of these has been changed."""
        versions = [*map(version_of, classes)]
        if all(versions):
            words = [*map(word_of_version, classes)]
            self.names["value_of"] = operator.attrgetter("value")
            pairs = zip(classes, versions, strict=True)
            steps = [step("version", Known(kind), version) for kind, version in pairs]
            self.versions = f"[*map(value_of, {self.bind(words)})] == {versions}", steps

    def native(self, tensors: int) -> list[Step]:
        """Steps that miss where a test does not hold, for the replayer; the tensors that the
        function is called with are in the first registers.
        """
        versions, known = self.versions
        steps = [one for test in self.tests if test.exact for one in test.steps]
        quick = [one for test in self.tests if not test.exact for one in test.steps]
        later = [test for test in self.tests if test.of_class and versions]
        asked = [*later, *[test for test in self.tests if test.steps and not test.exact]]
        if asked:
            otherwise = (self._holds(asked, tensors),)
            steps += [one._replace(either=otherwise) for one in (*quick, *known)]
        slow = [one for one in self.tests if not one.steps and not (one.of_class and versions)]
        if slow:
            steps.append(self._holds(slow, tensors))
        return steps

    def _holds(self, tests: Iterable[Test], tensors: int) -> Step:
        """The step that asks for these by a call into Python."""
        return step("holds", Known(self._function("*a", self._all(tests))), 0, tensors)

    def _all(self, tests: Iterable[Test]) -> str:
        """The expression that all of these hold, which may raise what `_function` catches.
        What is there or not is asked of all at once: each by itself takes long to compile.
        """
        found = []
        some = [*tests]
        looks: dict[Any, list[Any]] = {}
        for test in some:
            if test.entry:
                looks.setdefault(test.entry[0], []).append(test.entry[1:])
        for look, entries in looks.items():
            owners, names, values = map(self.bind, zip(*entries, strict=True))
            seen = f"map({look}, {owners}, {names})"
            if not isinstance(look, str):
                seen = f"map({self.bind(look)}, {owners})"
            are = [f"all(map({test}, {seen}, {values}))" for test in ("is_", "is_same")]
            found.append(f"({' or '.join(are)})")
        return "\n  and ".join([*found, *[t.expression for t in some if not t.entry]]) or "True"

    @cached_property
    def check(self) -> Check:
        """Says whether all tests hold, of which there are no more from then on."""
        versions, _ = self.versions
        of_classes = [test for test in self.tests if test.of_class and versions]
        rest = self._all(test for test in self.tests if not (test.of_class and versions))
        if not of_classes:
            return self._function("a", rest)
        return self._function("a", f"({versions} or ({self._all(of_classes)}))\n  and {rest}")

    def _function(self, head: str, body: str) -> Check:
        source = (
            f"def check({head}):\n try:\n  return bool({body})\n"
            " except (AttributeError, LookupError, ValueError):\n  return False\n"
        )
        scope = {**self.names, "bool": bool}
        exec(source, scope)
        check: Check = scope.pop("check")  # which is no cycle then
        return check

    def paths(self) -> list[str]:
        """What is guarded, without repetition, save for what every trace guards."""
        return [p for p in dict.fromkeys(t.path for t in self.tests) if p not in _EVERYWHERE]

    def failing(self, tensors: Sequence[Handle], but: str | None = None) -> str | None:
        """The path of the first test that does not hold, but for those of one path; None if all
        others do.
        """
        if self.check(tensors):
            return None
        tests = [test for test in self.tests if test.path != but]
        if but is not None and self._function("a", self._all(tests))(tensors):
            return None
        while len(tests) > 1:  # the half that has the first one
            first = tests[: len(tests) // 2]
            fine = self._function("a", self._all(first))(tensors)
            tests = tests[len(first) :] if fine else first
        look, there, names, _ = tests[0].entry or (None,) * 4
        owner, _, several = tests[0].path.partition(WITHOUT)
        if look == "lacks" and several:
            return next((f"{owner}.{name}" for name in there if name in names), tests[0].path)
        return tests[0].path


_lacks: Final[Callable[[Any, Any], bool]] = type(
    {}.keys()
).isdisjoint  # goes through the fewer of the names


def _now(place: Place, _: Any) -> Any:
    return place.now()


def _is_same(value: Any, kept: Any) -> bool:
    """Whether it is this very value, or a plain one that equals it."""
    return value is kept or same(value, kept)


def guards_of(tracer: Tracer, arguments: Sequence[Handle]) -> Guards:
    """The guards for everything that the traced code could read."""
    guards = Guards()
    reach = tracer.reach
    for place in reach.noted.places():
        if reach.noted.is_read(place):
            _guard_place(guards, place)
    for lack in reach.noted.lacks():
        names = reach.noted.read_of(lack)
        if id(lack.owner) in reach.contents:  # a guard of all that it holds says so
            names &= reach.contents[id(lack.owner)][1].keys()
        if names:
            more = ["…"] if len(names) > SHOWN else []
            path = f"{lack.path}{WITHOUT}{', '.join([*sorted(names)[:SHOWN], *more])}"
            guards.add_lacks(lack.owner, names, path, lack.kind is not None)
    for container, kept, path in reach.contents.values():
        _guard_contents(guards, container, kept, path)
    for handle, path, steps, requires in reach.tensors.values():
        entry = tracer.inputs.get(id(handle._storage))
        if entry is not None:
            what, storage = f"{path} (whether it needs a gradient)", handle._storage
            guards.add_held(handle, "_path", steps, what)
            guards.add_held(handle, "_storage", storage, what)
            guards.add_held(storage, "requires", entry.requires, what)
        elif "requires_grad" in reach.noted.loaded:
            guards.add(
                f"{guards.bind(handle)}.requires_grad is {requires}", f"{path}.requires_grad"
            )
    _guard_objects(guards, reach.objects)
    _guard_classes(guards, [*reach.classes])
    if reach.abstract:
        token = abc.get_cache_token()
        guards.names["token"] = abc.get_cache_token
        guards.add(f"token() == {token}", "what is registered with abstract classes")
    if reach.imported is not None:
        guards.names["imported"] = imported
        guards.add(f"imported() == {guards.bind(reach.imported)}", "which modules are imported")
    _guard_functions(guards, reach.functions)
    _guard_grads(guards, tracer, arguments)
    return guards


def _guard_objects(guards: Guards, objects: Sequence[Any]) -> None:
    """Which class each object is of, and that its attributes are where they were."""
    if not objects:
        return
    bound, kinds = guards.bind(objects), guards.bind([*map(type, objects)])
    dicts = [*map(_dict_of, objects)]
    steps: list[Step] = []
    for thing, own in zip(objects, dicts, strict=True):
        steps.append(step("constant", "thing", Known(thing)))
        steps.append(step("type", "thing", Known(type(thing))))
        if own is not None:
            steps += [step("attributes", "own", "thing"), step("is", "own", Known(own))]
    guards.bind(dicts)  # keeps them alive, and so their identities
    guards.names["dict_of"] = _dict_of
    same_dicts = f"[*map(id, map(dict_of, {bound}))] == {guards.bind([*map(id, dicts)])}"
    guards.add(f"[*map(type, {bound})] == {kinds} and {same_dicts}", _CLASSES, *steps)


def _dict_of(thing: Any) -> Any:
    """Where the attributes of an object are; None for a class, and where it has no such place."""
    own = own_attributes(thing)
    return own if type(own) is dict else None


def _guard_classes(guards: Guards, classes: Sequence[type]) -> None:
    """What classes inherit from, and that they have no more special methods than those looked at:
    a new one would be the last of what a class has.
    """
    guards.names["methods_of_tensors"] = _methods_of_tensors  # which are not looked into
    methods = f"methods_of_tensors() == {guards.bind(_methods_of_tensors())}"
    guards.add(methods, _TENSORS, of_class=True)
    guards.add_versions([*classes, Handle._type])
    if not classes:
        return
    guards.names |= {"line_of": line_of, "last_of": _last_of}
    orders = guards.bind([*map(line_of, classes)])
    guards.add(f"[*map(line_of, {guards.bind(classes)})] == {orders}", _BASES, of_class=True)
    owns = [*map(own_of, classes)]
    for name, known in ("len", [*map(len, owns)]), ("last_of", [*map(_last_of, owns)]):
        guards.add(f"[*map({name}, {guards.bind(owns)})] == {known}", _SPECIAL, of_class=True)


def _methods_of_tensors() -> list[Any]:
    return [part for base in line_of(Handle._type) for part in own_of(base).values()]


def _last_of(own: Any) -> Any:
    return next(reversed(own))


def _guard_functions(guards: Guards, functions: Sequence[types.FunctionType]) -> None:
    """The code and the defaults of the functions that ran."""
    for function in functions:
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            guards.add_held(function, part, getattr(function, part), _FUNCTIONS)


def _guard_place(guards: Guards, place: Place) -> None:
    path, owner, name, value = _about(place), place.owner, place.name, place.value
    guards.places.setdefault(path, place)
    in_cell = is_a(owner, types.CellType)
    if place.slot is not None and value is not ABSENT:
        guards.tests.append(Test("", path, (place.slot.__get__, owner, None, value)))
    elif place.slot is not None or is_a(place, Variable | Local) or (in_cell and value is ABSENT):
        guards.tests.append(Test("", path, ("now", place, None, value)))
    else:
        inherited, name = is_a(place, Inherited), "cell_contents" if in_cell else name
        guards.add_held(owner, name, value, path, of_class=inherited)


def _about(place: Place) -> str:
    """What a guard of a place is about, in words."""
    if is_a(place, Inherited) and place.name.startswith("__") and place.name.endswith("__"):
        return _SPECIAL
    owner = place.owner
    if type(owner) is dict and "__spec__" in owner and is_opaque(owner.get("__name__")):
        if callable(place.value) or is_a(place.value, types.ModuleType):
            return _LIBRARY
    return place.path


def _guard_contents(guards: Guards, container: Any, kept: Any, path: str) -> None:
    name, snapshot, what = guards.bind(container), guards.bind(kept), f"what {path} holds"
    kind = type(container)
    if is_a(container, np.ndarray):
        guards.add(f"same_array({name}, {snapshot})", f"the elements of {path}")
        return
    if kind not in (dict, list):  # exactly these are compared in place
        guards.names["snapshot_of"] = snapshot_of
        guards.add(f"same_parts(snapshot_of({name}), {snapshot})", what)
        return
    if not all(type(key) is str for key in (kept if kind is dict else ())):
        guards.add(
            f"same_parts({name}, {snapshot})", what, *_contents_are(container, kept), exact=False
        )
        return
    parts, shown = ([*kept.values()], f"{name}.values()") if kind is dict else (kept, name)
    test = f"[*map(id, {shown})] == {guards.bind([*map(id, parts)])}"
    if kind is dict:
        test = f"[*{name}] == {guards.bind([*kept])} and {test}"
    equal = any(map(is_plain, parts))
    if equal:
        test = f"({test} or same_parts({name}, {snapshot}))"
    guards.add(f"({test})", what, *_contents_are(container, kept), exact=not equal)


def _contents_are(container: Any, kept: Any) -> Iterator[Step]:
    """The steps that ask whether a dict or a list holds just these."""
    kind = type(container).__name__
    yield step("constant", "owner", Known(container))
    yield step(f"{kind}_length", "owner", len(kept))
    if kind == "dict":
        yield step("dict_start")
        for key, part in kept.items():
            yield step("dict_pair", "owner", Known(key), Known(part))
        return
    for number, part in enumerate(kept):
        yield step("list_item", "part", "owner", number)
        yield step("is", "part", Known(part))


def guard_numbers(guards: Guards, tracer: Tracer, inputs: Iterable[tuple[Input, Any]]) -> None:
    """That inputs, each of which comes with its source, hold the numbers that the function asked
    for while it ran: an array may look into their memory, so the numbers are compared.
    """
    paths = {id(handle._storage): path for handle, path, *_ in tracer.reach.tensors.values()}
    guards.names |= {"numbers_of": value_of, "numbers_in": values_in}
    for entry, source in inputs:
        kept = tracer.constants.numbers.get(id(entry.storage))
        if kept is not None:
            outside = is_a(source, Storage)
            found = f"numbers_in({guards.bind(source)})" if outside else f"numbers_of(a[{source}])"
            what = paths.get(id(entry.storage), f"tensor {source}")
            guards.add(f"same_array({found}, {guards.bind(kept)})", f"the numbers of {what}")


def _guard_grads(guards: Guards, tracer: Tracer, arguments: Sequence[Handle]) -> None:
    """Whether a leaf has a gradient already decides whether the next one is added to it."""
    places = {id(handle): f"a[{number}]" for number, handle in enumerate(arguments)}
    for handle, entry in tracer.grads.values():
        asked = "grad" in tracer.reach.noted.loaded and handle.requires_grad
        if id(handle) not in tracer.forgotten and (asked or id(handle) in tracer.accumulated):
            has = entry is not None
            if id(handle) in places:
                test = f"{places[id(handle)]}.grad is {'not ' if has else ''}None"
                guards.add(test, GRADIENT_THERE)
            else:
                guards.add_held(handle, "grad", None, GRADIENT_THERE, other=has)
