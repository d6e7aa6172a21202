"""Where each fact comes from, in a closed list of words, and what there is to say of a fact that is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from selector.configuring import BACKEND_VARIABLE, POLICY_VARIABLE, Origin
from selector.facts import Request, device_numbers
from selector.rules.nodes import Node, follow
from selector.rules.problems import shown
from selector.rules.vocabulary import PACKAGE_PREFIX, Value, Vocabulary

if TYPE_CHECKING:
    from selector.decision import Inputs
    from selector.ruleset import RuleSet
    from selector.tracing import Walk

Word = Literal[
    "device query", "package metadata", "torch", "deep probe", "environment", "flag", "config", "file", "facts",
    "request", "model table", "roles table", "tensors", "tracing", "derived", "default", "taken as absent", "row",
]  # fmt: skip
State = Literal["not looked for", "not given", "absent"]

ORIGINS: Mapping[Word, str] = {
    "device query": "The driver was asked: NVML, nvidia-smi, or the files of the kernel's compute driver.",
    "package metadata": "The metadata of the installed distributions says so; nothing was imported.",
    "torch": "The torch that this process had imported says so.",
    "deep probe": "A subprocess imported it to see.",
    "environment": "A variable of the environment, which is named.",
    "flag": "A flag of the command line, or what stands for one: `backend` and `policy` of a selector or a line.",
    "config": "The structured config.",
    "file": "A file of facts, with the line.",
    "facts": "Facts that were given as a mapping.",
    "request": "The request for this layer or this call.",
    "model table": "What the models table says of the model that is named.",
    "roles table": "The category that the roles table gives the role.",
    "tensors": "Read off the tensors of the call.",
    "tracing": "The call was met in code that torch.compile or torch.export traces.",
    "derived": "Follows from the facts that are named.",
    "default": "What holds where nothing else is said.",
    "taken as absent": "The kernel that needs it did not bind, so it counts as absent.",
    "row": "A row of the rules, which is named, chose it or made it known.",
}
STATES: Mapping[State, str] = {
    "not looked for": "Nobody looked, or looking gave no answer: it may be there.",
    "not given": "The request, the call or the model says nothing of it.",
    "absent": "It was looked for, and there is none.",
}
CALL = "call."
_WORDS: Mapping[Origin, str] = {
    "config": "config", "flag": "flag", "env": f"environment {BACKEND_VARIABLE}", "platform": "row",
}  # fmt: skip


def word_of(origin: str) -> Word:
    """Give the word that an origin begins with; what follows it names the file, the model, the facts or the row."""
    return next(word for word in get_args(Word) if origin == word or origin.startswith(f"{word} "))


# --- what is given ------------------------------------------------------------------------------------------------


def file_origins(machine: Mapping[str, Value], device: int, name: str, node: Node) -> dict[str, str]:
    """Give the line of a file of facts for each fact of one of its devices; of what is not listed, that of the list."""
    lines = {fact: follow(node, path).key_at(name).line for fact, path in _paths(machine, device, node)}
    return {fact: f"file {shown(name, 4096)}:{line}" for fact, line in lines.items()}


def _paths(machine: Mapping[str, Value], device: int, node: Node) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    value = node.plain()
    numbers = device_numbers(value) if isinstance(value, Mapping) else []
    entry: tuple[str | int, ...] = ("devices", numbers.index(device)) if device in numbers else ("devices",)
    listed = follow(node, entry).value
    for fact in machine:
        if fact.startswith(PACKAGE_PREFIX):
            yield fact, ("packages", fact.removeprefix(PACKAGE_PREFIX))
        elif isinstance(node.value, dict) and (fact not in node.value or (isinstance(listed, dict) and fact in listed)):
            yield fact, (*entry, fact)
        else:
            yield fact, (fact,)


def policy_origin(given: object, environment: Mapping[str, object]) -> str:
    """Say where the policy comes from."""
    if given is not None:
        return "flag"
    return f"environment {POLICY_VARIABLE}" if environment.get(POLICY_VARIABLE) else "default"


def flag_origins(asked: Mapping[str, object]) -> dict[str, str]:
    """Say of every fact of a layer, and of its call, that a flag gave it."""
    call = asked.get("call")
    names = [*asked, *(f"{CALL}{name}" for name in (call if isinstance(call, Mapping) else ()))]
    aligned = [name.replace("causal", "causal_alignment") for name in names if name in ("causal", f"{CALL}causal")]
    unsaid = {f"{CALL}{name}" for name in ("causal", "causal_alignment")} if not _says_causal(call) else set()
    return {name: "flag" for name in (*names, *aligned) if name != "call" and name not in unsaid}


def _says_causal(call: object) -> bool:
    return isinstance(call, Mapping) and call.get("causal") is not None


def given_origins(inputs: Inputs) -> dict[str, str]:
    """Say of everything that was given where it comes from; facts of the call go by ``call.`` and their name."""
    request, told = inputs.request, inputs.origins
    found = {name: told.get(name, "facts") for name in inputs.machine}
    found |= {name: _asked(name, request, told) for name in request.facts}
    found |= {f"{CALL}{name}": _asked(f"{CALL}{name}", request, told) for name in request.call or ()}
    found["role"] = _asked("role", request, told)
    found["policy"] = told.get("policy", "default" if inputs.policy == "fallback" else "flag")
    named = {"role_category": request.category, "model": request.model}
    return found | {name: _asked(name, request, told) for name, value in named.items() if value is not None}


def _asked(name: str, request: Request, told: Mapping[str, str]) -> str:
    return told.get(name) or ("default" if name in request.unsaid else "request")


# --- what the tables meet -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a decision has come: what it has from the config, whether it has met the call, and its walks so far."""

    inputs: Inputs
    rules: RuleSet
    category: str | None
    entry: Origin | None
    met: bool
    walks: Sequence[Walk]

    def origins(self, facts: Mapping[str, Value]) -> dict[str, str]:
        """Say of every fact where it comes from: what is put on top of another hides it, as in the decision."""
        given = given_origins(self.inputs)
        found = {name: given[name] for name in self.inputs.machine}
        found |= dict.fromkeys(self.inputs.absent, "taken as absent")
        found |= self._model()
        found |= {name: origin for name, origin in given.items() if self._is_asked(name)}
        found |= self._category(given)
        found |= self._redecided()
        if self.met:
            found |= {name.removeprefix(CALL): origin for name, origin in given.items() if name.startswith(CALL)}
        found |= self._config(facts)
        found |= {one.name: f"derived from {one.first} and {one.second}" for one in self.rules.vocabulary.derived}
        return {name: found[name] for name in facts}

    def _is_asked(self, name: str) -> bool:
        return name in self.inputs.request.facts or name in ("role", "model", "policy")

    def _model(self) -> dict[str, str]:
        name = self.inputs.request.model
        model = self.rules.models.get(name) if name is not None else None
        if model is None:
            return {}
        role = model.roles.get(self.inputs.request.role)
        supplied = [*model.facts, *(role.facts if role else ()), *(role.compiled if role else ())]
        return dict.fromkeys(supplied, f"model table {shown(name)}")

    def _category(self, given: Mapping[str, str]) -> dict[str, str]:
        request = self.inputs.request
        if request.category is not None:
            return {"role_category": given["role_category"]}
        model = self.rules.models.get(request.model) if request.model is not None else None
        role = model.roles.get(request.role) if model is not None else None
        table = f"model table {shown(request.model)}" if role is not None and role.category else "roles table"
        return {"role_category": table}

    def _redecided(self) -> dict[str, str]:
        """Name the rows of the call table after which a default was decided again."""
        if self.entry != "platform":
            return {}
        rows = [walk.chosen.row for walk in self.walks if walk.chosen is not None]
        return {fact: f"row {row.name}" for row in rows for fact in row.redecide}

    def _config(self, facts: Mapping[str, Value]) -> dict[str, str]:
        config = [fact.name for fact in self.rules.vocabulary.group.get("config", ()) if fact.name != "policy"]
        told = {name: "config" if facts.get(name) not in (None, False) else "default" for name in config}
        if facts.get("configured.default"):
            told["configured.default"] = _WORDS[self.inputs.choices.default_origin]
        return told | {"backend": self._backend(facts.get("backend"))}

    def _backend(self, name: Value) -> str:
        """Name the last row that wrote the backend out, or what the user named it with."""
        for walk in reversed(self.walks):
            row = walk.chosen.row if walk.chosen is not None else None
            if row is not None and row.action in ("use", "substitute") and row.target == name:
                return f"row {row.name}"
        return _WORDS[self.entry or "platform"]


def state_of(name: str, facts: Mapping[str, Value], vocabulary: Vocabulary) -> State | None:
    """Say of a fact that is not known, or of which there is none, which of the two it is; None for every other."""
    fact = vocabulary.facts.get(name)
    of_machine = fact is not None and fact.group == "machine"
    if name in facts:
        return "absent" if of_machine and facts[name] is None else None
    sources = next(((one.first, one.second) for one in vocabulary.derived if one.name == name), ())
    for source in sources:
        if source not in facts:
            return state_of(source, facts, vocabulary)
    return "not looked for" if of_machine else "not given"
